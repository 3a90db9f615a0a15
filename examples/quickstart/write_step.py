"""Write one training step as a step file, for `collapsar analyze FOLDER`. Needs torch and safetensors.

In a trainer: every few steps, call write_step with the batch and the policy (any causal language model of transformers).
"""
import torch
from safetensors.torch import save_file


@torch.no_grad()
def cross_logprobs(model, prompts, responses):
    """Lists of token ids -> [P, R, T] float32: log p(response token | prompt, response tokens before it), 0 past its end."""
    longest = max(len(response) for response in responses)
    padded = torch.tensor([response + [0] * (longest - len(response)) for response in responses])
    scores = []
    for prompt in prompts:  # all responses under one prompt at a time
        ids = torch.cat([torch.tensor(prompt).expand(len(responses), -1), padded], dim=1).to(model.device)
        logits = model(ids).logits[:, len(prompt) - 1 : -1].float()
        scores.append(logits.log_softmax(-1).gather(-1, padded.to(model.device)[..., None])[..., 0].cpu())
    return torch.stack(scores)


def write_step(path, step, model, prompts, responses, prompt_of, rewards):
    """prompt_of[r]: index of the prompt that response r answers; rewards[r]: its reward."""
    tensors = {
        "cross_logprobs": cross_logprobs(model, prompts, responses),
        "lengths": torch.tensor([len(response) for response in responses], dtype=torch.int32),
        "group": torch.tensor(prompt_of, dtype=torch.int32),
        "rewards": torch.tensor(rewards, dtype=torch.float32),
    }
    save_file(tensors, path, metadata={"step": str(step)})
