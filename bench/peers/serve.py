"""Peers in Python: what one would write with torch, numpy or scipy for the same outputs, checked and timed.

  python bench/peers/serve.py torch | numpy | scipy

A request a line on stdin, an answer a line on stdout, both JSON; bench/peers/process.mjs asks:
  {"do": "versions"}                                   -> {"versions": {"torch": "2.13.0", ...}}
  {"do": "load", "path", "arrays", "operation", ...}   -> {"peers": [{"name", "threads"}]}, in place of what was loaded
  {"do": "unload"}                                     -> {}
  {"do": "check", "name", "threads"}                   -> {"errors": {name: difference}, "problem": text or null}
  {"do": "time", "name", "threads", "seconds"}         -> {"seconds": median of a call}
and {"error": text} to what cannot be done. Nothing here is needed to use collapsar.
"""

import json
import math
import statistics
import sys
import time

# The one library whose peers this process has, and what it takes to load, check and time them.
library = sys.argv[1] if len(sys.argv) > 1 else ""
needed = {"torch": ("numpy", "torch"), "numpy": ("numpy",), "scipy": ("numpy", "scipy.special")}[library]
modules, missing = {}, ""
for name in needed:
    try:
        modules[name] = __import__(name, fromlist=["special"] if "." in name else [])
    except ImportError:
        missing = f"this Python does not have {name.split('.')[0]}"
np = modules.get("numpy")
special = modules.get("scipy.special")
torch = modules.get("torch")

# The formulas of these peers lose digits of their own: torch's entropy is off by 5e-5 at V = 152K.
TOLERANCE = 1e-3
EXACT = {"argmax", "hitRank", "rankAbove", "rankEqual"}


# --- the peers: results by name, as collapsar names them ---------------------------------------------------


def torch_logit_stats(x, target):
    x = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    lse = torch.logsumexp(x, -1)
    log_probs = torch.log_softmax(x, -1)
    own = x.gather(-1, target[:, None])
    return {
        "logsumexp": lse,
        "entropy": -(log_probs.exp() * log_probs).sum(-1),
        "targetLogprob": log_probs.gather(-1, target[:, None])[:, 0],
        "argmax": x.argmax(-1),
        "rankAbove": (x > own).sum(-1),
        "rankEqual": (x == own).sum(-1),
    }


def torch_by_rows(x, target):
    """Row by row, so that temporaries stay in the cache: what verl and TRL do on a GPU to save memory."""
    rows = [torch_logit_stats(x[r : r + 1], target[r : r + 1]) for r in range(x.shape[0])]
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def numpy_logsumexp(x):
    top = x.max(-1, keepdims=True)
    return top[:, 0] + np.log(np.exp(x - top).sum(-1))


def token_mask(lengths, tokens):
    return torch.arange(tokens)[None, :] < lengths[:, None]


def torch_sum_tokens(x, mask):
    """[P, R, T] -> [R, P]; select, because padding may be NaN."""
    return {"sums": torch.where(mask, x, 0).sum(-1, dtype=torch.float64).T}


def torch_hits(x, matched, own):
    """The three calls that a row of scores takes: marginal, best column, the place of its own (ties: the lower column)."""
    earlier = torch.arange(x.shape[1])[None, :] < own[:, None]
    return {
        "marginalSeq": torch.logsumexp(x, -1) - math.log(x.shape[1]),
        "argmax": x.argmax(-1),
        "hitRank": ((x > matched) | ((x == matched) & earlier)).sum(-1),
    }


def torch_score_stats(x, own, lengths):
    per_token = x / lengths[:, None].clamp(min=1)
    log_probs = torch.log_softmax(x, -1)
    matched = x.gather(-1, own[:, None])
    return torch_hits(x, matched, own) | {
        "matchedSeq": matched[:, 0],
        "marginalToken": torch.logsumexp(per_token, -1) - math.log(x.shape[1]),
        "posteriorEntropy": -(log_probs.exp() * log_probs).sum(-1),
        "rankAbove": (x > matched).sum(-1),
    }


def torch_step(x, mask, lengths, own):
    """The formulas of RAGEN-2's metrics over [P, R, T], written anew: log-prob statistics, MI, retrieval."""
    prompts = x.shape[0]
    sums = torch.where(mask, x, 0).sum(-1).T
    means = sums / lengths[:, None].clamp(min=1)
    rows = torch.arange(len(own))
    values = {"mi_upper_bound": torch.tensor(math.log(prompts))}
    for suffix, scores in (("", means), ("_seq", sums)):
        matched = scores[rows, own]
        marginal = torch.logsumexp(scores, -1) - math.log(prompts)
        excess = matched - marginal
        std = marginal.std(correction=0)
        values[f"mi{suffix}_estimate"] = excess.mean()
        values[f"mi_zscore{suffix}"] = (excess / (std + 1e-3)).mean()
        values[f"marginal_std{suffix}"] = std
        values[f"conditional_entropy{suffix}_est"] = -matched.mean()
        values[f"reasoning_entropy{suffix}_est"] = -marginal.mean()
        if suffix == "":
            values["matched_log_prob_mean"] = matched.mean()
            values["marginal_log_prob_mean"] = marginal.mean()
    values["retrieval_accuracy"] = (means.argmax(-1) == own).double().mean()
    for k in (2, 4, 8):
        if k <= prompts:
            hit = (means.topk(k, -1).indices == own[:, None]).any(-1)
            values[f"retrieval_accuracy@{k}"] = hit.double().mean()
    return {name: value.reshape(1) for name, value in values.items()}


# --- which of them a case has ---------------------------------------------------------------------------------------


def peers_of(case):
    """(name, uses threads, call) of every peer that this library has."""
    operation, out, dtype, x = case["operation"], case["out"], case["dtype"], case["tensor"]
    listed = []
    if torch is not None:
        t = to_torch(x, dtype)
        target, own = (torch.from_numpy(case[name].astype(np.int64)) for name in ("targets", "own"))
        lengths = torch.from_numpy(case["lengths"].astype(np.int64))
        if operation == "logitStats" and out == ["logsumexp"]:
            listed.append(("torch.logsumexp", True, lambda: {"logsumexp": torch.logsumexp(t, -1)}))
        elif operation == "logitStats" and out == ["argmax"]:
            listed.append(("torch.argmax", True, lambda: {"argmax": t.argmax(-1)}))
        elif operation == "logitStats":
            listed.append(("torch eager", True, lambda: torch_logit_stats(t, target)))
            listed.append(("torch row by row", True, lambda: torch_by_rows(t, target)))
        elif operation == "sumTokens":
            mask = token_mask(lengths, t.shape[2])
            listed.append(("torch where, sum", True, lambda: torch_sum_tokens(t, mask)))
        elif operation == "scoreStats":
            listed.append(("torch lse, argmax, hits", True, lambda: torch_hits(t, t.gather(-1, own[:, None]), own)))
            listed.append(("torch, all outputs", True, lambda: torch_score_stats(t, own, lengths)))
        elif operation == "step":
            mask = token_mask(lengths, t.shape[2])
            listed.append(("torch, RAGEN's formulas", True, lambda: torch_step(t, mask, lengths, own)))
    if library == "numpy" and dtype in ("float32", "float64"):
        if operation == "sumTokens":
            valid = np.arange(x.shape[2])[None, :] < case["lengths"][:, None]
            listed.append(
                ("numpy sum(where=)", False, lambda: {"sums": x.sum(-1, where=valid[None], dtype=np.float64).T})
            )
        if operation == "logitStats" and out == ["argmax"]:
            listed.append(("numpy argmax", False, lambda: {"argmax": x.argmax(-1)}))
    result = {("logitStats", "logsumexp"): "logsumexp", ("scoreStats", None): "marginalSeq"}.get(
        (operation, out[0] if out else None)
    )
    if library != "torch" and result is not None and dtype in ("float32", "float64"):
        less = math.log(x.shape[1]) if result == "marginalSeq" else 0.0
        if library == "numpy":
            listed.append(("numpy logsumexp", False, lambda: {result: numpy_logsumexp(x) - less}))
        else:
            listed.append(("scipy logsumexp", False, lambda: {result: special.logsumexp(x, axis=-1) - less}))
    return listed


def to_torch(array, dtype):
    if dtype in ("bfloat16", "float16"):
        return torch.from_numpy(array.view(np.int16)).view(getattr(torch, dtype))
    return torch.from_numpy(array)


# --- checks and times -----------------------------------------------------------------------------------------------


def as_array(value):
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.contiguous().double().numpy()
    return np.asarray(value, dtype=np.float64).reshape(-1)


def check(case, results):
    """The largest differences from collapsar's results, of large values relative to them; and what is wrong, if any."""
    errors, problems = {}, []
    for name, value in results.items():
        ours = case["results"].get(name)
        if ours is None:
            continue
        theirs = as_array(value)
        if ours.shape != theirs.shape:
            problems.append(f"{name} has {theirs.size} entries, ours {ours.size}")
            continue
        if name == "argmax":  # several columns may have equal values: compare these
            x = case["tensor"] if case["dtype"] in ("float32", "float64") else None
            if x is None:
                x = to_torch(case["tensor"], case["dtype"]).float().numpy()
            rows = np.arange(x.shape[0])[:, None]
            ours, theirs = (x[rows, c.astype(np.int64).reshape(x.shape[0], -1)] for c in (ours, theirs))
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0.0, np.abs(ours - theirs) / np.maximum(1.0, np.abs(ours)))
        worst = float(difference.max()) if difference.size else 0.0
        errors[name] = worst
        allowed = 0.0 if name in EXACT else TOLERANCE
        if not worst <= allowed:
            problems.append(f"{name} differs by {worst:.3g}, allowed {allowed:.3g}")
    if not errors and not problems:
        problems.append("it gives nothing that can be compared")
    return errors, "; ".join(problems)


def set_threads(count):
    if torch is not None:
        torch.set_num_threads(count)


class Driver:
    def __init__(self):
        self.case, self.calls = None, {}

    def versions(self, _):
        if missing:
            raise ImportError(missing)
        found = {name.split(".")[0]: sys.modules[name.split(".")[0]].__version__ for name in modules}
        return {"versions": {"python": sys.version.split()[0]} | found}

    def unload(self, _):
        self.case, self.calls = None, {}
        return {}

    def load(self, request):
        self.unload(request)  # or both would be held at once
        case = dict(request, out=request.get("out"), results={})
        for name, place in request["arrays"].items():
            array = np.fromfile(
                request["path"], dtype=place["type"], count=place["length"], offset=place["offset"]
            )
            if name.startswith("result "):
                case["results"][name[len("result ") :]] = array
            else:
                case[name] = array
        case["tensor"] = case["tensor"].reshape(request["shape"])
        self.case = case
        answers = []
        for name, threaded, call in peers_of(case):
            self.calls[name] = call
            answers += [{"name": name, "threads": n} for n in (request["threadCounts"] if threaded else [1])]
        return {"peers": answers}

    def check(self, request):
        set_threads(request["threads"])
        errors, problem = check(self.case, self.calls[request["name"]]())
        return {"errors": errors, "problem": problem or None}

    def time(self, request):
        call = self.calls[request["name"]]
        set_threads(request["threads"])
        samples = []
        until = time.perf_counter() + request["seconds"]
        while not samples or time.perf_counter() < until:
            start = time.perf_counter()
            call()
            samples.append(time.perf_counter() - start)
        return {"seconds": statistics.median(samples), "samples": len(samples)}


def main():
    driver = Driver()
    handlers = {name: getattr(driver, name) for name in ("versions", "load", "unload", "check", "time")}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request["do"]](request)
        except ImportError as error:
            answer = {"error": str(error)}
        except Exception as error:  # reported to the suite, which continues without this peer
            answer = {"error": f"{type(error).__name__}: {error}".split("\n")[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
