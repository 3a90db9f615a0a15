"""A PyTorch trainer that has its tensors diagnosed on the GPU where they are.

Starts diagnose.mjs, hands it logits and cross-scores by CUDA IPC, and compares what comes back with PyTorch's own
float64. Prints one JSON line; ends with status 1 if anything differs.

    python examples/gpu/trainer.py [--node node] [--rows 512] [--vocabulary 151936]
"""

import argparse
import base64
import json
import pathlib
import subprocess
import sys

import torch


def handed_over(tensor: torch.Tensor) -> dict:
    """What engine.importDevice() wants to know of a CUDA tensor, as JSON can carry it.

    Call it on the stream that made the tensor: it records the event that is waited for. The tensor must stay alive,
    and its values as they are, until the answer is there.
    """
    parts = tensor.untyped_storage()._share_cuda_()
    _, handle, size, offset, counter, counter_index, event, event_required = parts

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return {
        "handle": text(handle),
        "bytes": size,
        "offset": offset,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "storageOffset": tensor.storage_offset(),
        "event": text(event),
        "eventRequired": event_required,
        "refCounter": {"name": text(counter), "index": counter_index},
    }


class Diagnosis:
    """diagnose.mjs as a child process: one question after the other, each about one tensor."""

    def __init__(self, node: str):
        script = pathlib.Path(__file__).with_name("diagnose.mjs")
        self.process = subprocess.Popen(
            [node, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: str, tensor: torch.Tensor, **more) -> tuple[dict, float]:
        """The result, and how many milliseconds it took from the import on."""
        line = json.dumps({"question": question, "tensor": handed_over(tensor), **more})
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"diagnose.mjs ended with status {self.process.wait()}")
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"], answer["milliseconds"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def check_logits(diagnosis: Diagnosis, device: str, rows: int, vocabulary: int, rounds: int) -> dict:
    """Entropy, log-prob and rank of each row's target against torch in float64."""
    generator = torch.Generator(device).manual_seed(1)
    logits = torch.randn(rows, vocabulary, generator=generator, device=device).mul_(3).to(torch.bfloat16)
    targets = torch.randint(vocabulary, (rows,), generator=generator, device=device)
    timings = []
    for _ in range(rounds):
        found, milliseconds = diagnosis.ask("logitStats", logits, targets=targets.tolist())
        timings.append(milliseconds)
    logprobs = logits.double().log_softmax(-1)
    at_target = logprobs.gather(-1, targets[:, None])
    expected = {
        "entropy": -(logprobs.exp() * logprobs).sum(-1),
        "targetLogprob": at_target[:, 0],
    }
    errors = {
        name: (torch.tensor(found[name], dtype=torch.float64) - values.cpu()).abs().max().item()
        for name, values in expected.items()
    }
    above = (logits > logits.gather(-1, targets[:, None])).sum(-1)
    errors["rankAbove"] = (torch.tensor(found["rankAbove"]) - above.cpu()).abs().max().item()
    return {"errors": errors, "milliseconds": sorted(timings)[len(timings) // 2], "firstMilliseconds": timings[0]}


def check_cross_scores(diagnosis: Diagnosis, device: str, prompts: int, rollouts: int, tokens: int) -> dict:
    """The mutual information of responses and prompts, from [prompts, rows, tokens] log-probs."""
    generator = torch.Generator(device).manual_seed(2)
    rows = prompts * rollouts
    logprobs = -torch.rand(prompts, rows, tokens, generator=generator, device=device)
    own = torch.arange(rows, device=device) // rollouts
    # Each response fits its own prompt a little better.
    logprobs[own, torch.arange(rows, device=device)] *= 0.9
    lengths = torch.randint(1, tokens + 1, (rows,), generator=generator, device=device)
    found, milliseconds = diagnosis.ask(
        "crossScores", logprobs, lengths=lengths.tolist(), groups=own.tolist()
    )
    valid = torch.arange(tokens, device=device) < lengths[:, None]
    sums = logprobs.double().masked_fill(~valid, 0).sum(-1).T
    matched = sums.gather(1, own[:, None])[:, 0]
    marginal = sums.logsumexp(1) - torch.tensor(float(prompts), dtype=torch.float64, device=device).log()
    expected = (matched - marginal).mean().item()
    return {"found": found, "mi": expected, "milliseconds": milliseconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--node", default="node")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    diagnosis = Diagnosis(arguments.node)
    logits = check_logits(diagnosis, arguments.device, arguments.rows, arguments.vocabulary, arguments.rounds)
    scores = check_cross_scores(diagnosis, arguments.device, 16, 8, 300)
    diagnosis.close()
    # docs/reference/logits.md: 3e-7 and half a unit in the last place of the log-sum-exp, which is below 32 here.
    gates = {"entropy": 1e-6, "targetLogprob": 2e-6, "rankAbove": 0}
    wrong = [name for name, gate in gates.items() if logits["errors"][name] > gate]
    if abs(scores["found"]["mi_seq_estimate"] - scores["mi"]) > 1e-6:
        wrong.append("mi_seq_estimate")
    summary = {
        "passed": not wrong,
        "wrong": wrong,
        "torch": torch.__version__,
        "logits": logits,
        "crossScoresMilliseconds": scores["milliseconds"],
    }
    print(json.dumps(summary))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
