"""What hooks and readers rely on in other people's packages, held against those packages: by their source, not run.

    python tests/contracts.py FOLDER                    the wheels of contracts.txt, downloaded into FOLDER
    python tests/contracts.py FOLDER slime=PATH ...     and a checkout of what is on no index

A name that has moved fails by the file and line where it was looked for, and says which of our files relies on it.
Exit status: 0 all there, 1 something is not, 2 a package cannot be had.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PINNED = Path(__file__).parent / "contracts.txt"


@dataclass(frozen=True)
class Contract:
    """One name, and what it must have.

    Args:
        package: of contracts.txt, or the name of a checkout.
        file: in it, where the name is.
        name: of a class, a function or a method (``Class.method``); empty: of the whole file.
        used_by: of our files, the one that relies on it.
        arguments: of the function, by name, in any order.
        fields: of the class: annotated, or set on ``self`` by one of its methods.
        bases: of the class, by their last names.
        words: texts that stand in it, as keys of what it writes or reads.
        inherits: methods that the class must not have of its own.
    """

    package: str
    file: str
    name: str
    used_by: str
    arguments: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()


V1 = "verl/trainer/ppo/v1"
CONTRACTS = (
    Contract("verl", "verl/__init__.py", "", "pyproject.toml", words=("verl.plugins",)),
    Contract("verl", f"{V1}/trainer_base.py", "", "verl/v1.py", words=("tq", "is_padding")),
    Contract(
        "verl",
        f"{V1}/trainer_base.py",
        "PPOTrainer",
        "verl/v1.py",
        fields=("config", "tokenizer", "actor_rollout_wg"),
    ),
    Contract(
        "verl",
        f"{V1}/trainer_base.py",
        "PPOTrainer._compute_advantage",
        "verl/v1.py",
        arguments=("batch", "metrics"),
        words=("uid", "response_mask", "rm_scores", "advantages"),
    ),
    Contract(
        "verl",
        f"{V1}/trainer_base.py",
        "PPOTrainer._compute_old_log_prob",
        "verl/v1.py",
        words=("entropy", "log_probs", "calculate_entropy", "compute_loss", "temperature"),
    ),
    *(
        Contract(
            "verl",
            f"{V1}/trainer_{mode}.py",
            name,
            "verl/plugin.py",
            bases=("PPOTrainer",),
            inherits=("_compute_advantage",),
        )
        for mode, name in (
            ("sync", "PPOTrainerSync"),
            ("colocate_async", "PPOTrainerColocateAsync"),
            ("separate_async", "PPOTrainerSeparateAsync"),
        )
    ),
    Contract(
        "verl",
        f"{V1}/agent_loop_tq.py",
        "",
        "verl/v1.py",
        words=("prompts", "responses", "loss_mask", "position_ids", "multi_modal_inputs", "prompt_len", "response_len"),
    ),
    Contract(
        "verl",
        "verl/utils/tensordict_utils.py",
        "list_of_dict_to_tensordict",
        "verl/v1.py",
    ),
    Contract("verl", "verl/single_controller/base/decorator.py", "", "verl/v1.py", words=("_dispatch_info",)),
    Contract(
        "verl",
        "verl/trainer/ppo/ray_trainer.py",
        "RayPPOTrainer",
        "verl/legacy.py",
        fields=("config", "tokenizer", "actor_rollout_wg"),
    ),
    Contract(
        "verl", "verl/trainer/ppo/ray_trainer.py", "RayPPOTrainer._update_actor", "verl/plugin.py", arguments=("batch",)
    ),
    Contract(
        "verl",
        "verl/trainer/ppo/ray_trainer.py",
        "RayPPOTrainer._compute_old_log_prob",
        "verl/legacy.py",
        arguments=("batch",),
        words=("old_log_probs",),
    ),
    *(
        Contract(
            "verl",
            f"verl/experimental/{file}.py",
            name,
            "verl/plugin.py",
            bases=(base,),
            inherits=("_update_actor",),
        )
        for file, name, base in (
            ("separation/ray_trainer", "SeparateRayPPOTrainer", "RayPPOTrainer"),
            ("one_step_off_policy/ray_trainer", "OneStepOffRayTrainer", "SeparateRayPPOTrainer"),
            ("fully_async_policy/fully_async_trainer", "FullyAsyncTrainer", "SeparateRayPPOTrainer"),
        )
    ),
    Contract(
        "verl",
        f"{V1}/trainer_base.py",
        "",
        "formats/verl/reader.ts",
        words=("input", "output", "gts", "score", "step", "uid"),
    ),
    *(
        Contract("transferqueue", "transfer_queue/interface.py", name, "verl/v1.py", arguments=arguments)
        for name, arguments in (
            ("kv_batch_get", ("keys", "partition_id", "select_fields")),
            ("kv_batch_put", ("keys", "partition_id", "fields", "tags")),
            ("kv_clear", ("keys", "partition_id")),
        )
    ),
    Contract(
        "transferqueue",
        "transfer_queue/metadata.py",
        "KVBatchMeta",
        "verl/v1.py",
        fields=("keys", "tags", "partition_id", "fields", "extra_info"),
    ),
    *(
        Contract(
            "tinker",
            "tinker/lib/public_interfaces/sampling_client.py",
            f"SamplingClient.{name}",
            "tinker.py",
            arguments=arguments,
        )
        for name, arguments in (
            ("sample", ("prompt", "num_samples", "sampling_params")),
            ("compute_logprobs", ("prompt", "prompt_logprobs_last_n")),
            ("get_tokenizer", ()),
        )
    ),
    Contract(
        "tinker",
        "tinker/types/_pydantic_types/model_input.py",
        "ModelInput.from_ints",
        "tinker.py",
        arguments=("tokens",),
    ),
    Contract(
        "tinker",
        "tinker/types/_pydantic_types/sampling_params.py",
        "SamplingParams",
        "tinker.py",
        fields=("max_tokens", "temperature"),
    ),
    Contract("tinker", "tinker/types/sample_response.py", "SampleResponse", "tinker.py", fields=("sequences",)),
    Contract("tinker", "tinker/types/sampled_sequence.py", "SampledSequence.tokens", "tinker.py"),
    Contract("tinker-cookbook", "tinker_cookbook/rl/train.py", "Config", "tinker.py", fields=("evaluator_builders",)),
    Contract(
        "tinker-cookbook",
        "tinker_cookbook/eval/evaluators.py",
        "SamplingClientEvaluator.__call__",
        "tinker.py",
        arguments=("sampling_client",),
    ),
    Contract(
        "tinker-cookbook",
        "tinker_cookbook/rl/rollout_logging.py",
        "",
        "formats/tinker/reader.ts",
        words=("iteration", "split", "group_idx", "traj_idx", "total_reward", "steps", "tags", "ac_len"),
    ),
    Contract("skyrl", "skyrl/train/trainer.py", "RayPPOTrainer.__init__", "skyrl.py", arguments=("callbacks",)),
    Contract("skyrl", "skyrl/train/trainer.py", "RayPPOTrainer", "skyrl.py", fields=("tokenizer",)),
    Contract("skyrl", "skyrl/train/trainer.py", "RayPPOTrainer.add_callback", "docs/guide/trainers/skyrl.md"),
    Contract("skyrl", "skyrl/train/entrypoints/main_base.py", "BasePPOExp.get_trainer", "docs/guide/trainers/skyrl.md"),
    Contract(
        "skyrl",
        "skyrl/train/trainer.py",
        "RayPPOTrainer.postprocess_generator_output",
        "skyrl.py",
        arguments=("generator_output", "uids"),
    ),
    Contract("skyrl", "skyrl/train/trainer.py", "RayPPOTrainer.generate", "skyrl.py", arguments=("input_batch",)),
    *(
        Contract(
            "skyrl",
            "skyrl/train/utils/callbacks.py",
            f"TrainingCallback.{name}",
            "skyrl.py",
            arguments=("trainer", "callback_input", "control"),
        )
        for name in ("on_train_start", "on_log")
    ),
    Contract("skyrl", "skyrl/train/utils/callbacks.py", "CallbackInput", "skyrl.py", fields=("logs",)),
    Contract(
        "skyrl",
        "skyrl/train/generators/base.py",
        "GeneratorOutput",
        "skyrl.py",
        fields=(
            "prompt_token_ids",
            "response_ids",
            "rewards",
            "loss_masks",
            "stop_reasons",
            "trajectory_ids",
            "is_last_step",
        ),
    ),
    Contract(
        "skyrl",
        "skyrl/train/generators/base.py",
        "GeneratorInput",
        "skyrl.py",
        fields=("env_classes", "env_extras", "trajectory_ids"),
    ),
    Contract(
        "skyrl",
        "skyrl/train/generators/base.py",
        "TrajectoryID",
        "skyrl.py",
        fields=("instance_id", "repetition_id"),
    ),
    Contract(
        "skyrl",
        "skyrl/train/utils/trainer_utils.py",
        "",
        "formats/skyrl/reader.ts",
        words=("input_prompt", "output_response", "score", "stop_reason", "data_source"),
    ),
    *(
        Contract("trl", f"trl/trainer/{name}_trainer.py", f"{title}Trainer", "trl.py", fields=fields)
        for name, title, fields in (
            ("grpo", "GRPO", ("num_generations", "reward_weights", "reward_func_names", "loss_type", "beta")),
            ("rloo", "RLOO", ("num_generations", "reward_weights", "reward_func_names", "beta")),
        )
    ),
    *(
        Contract("trl", f"trl/trainer/{name}_trainer.py", f"{title}Trainer.{method}", "trl.py", arguments=arguments)
        for name, title in (("grpo", "GRPO"), ("rloo", "RLOO"))
        for method, arguments in (
            ("_calculate_rewards", ("inputs", "prompts", "completions")),
            ("_generate_and_score_completions", ("inputs",)),
            ("_compute_loss", ("model", "inputs")),
        )
    ),
    Contract(
        "trl",
        "trl/trainer/grpo_trainer.py",
        "GRPOTrainer",
        "formats/trl/reader.ts",
        words=("step", "prompt", "completion", "advantage"),
    ),
    Contract(
        "areal",
        "areal/infra/workflow_executor.py",
        "",
        "formats/areal/reader.ts",
        words=("task_id", "sample_idx", "seqlen", "prompt_len", "reward", "prompt", "completion"),
    ),
    Contract(
        "slime",
        "slime/utils/types.py",
        "Sample",
        "slime.py",
        fields=(
            "group_index",
            "rollout_id",
            "tokens",
            "response_length",
            "reward",
            "loss_mask",
            "remove_sample",
            "status",
            "metadata",
        ),
    ),
    Contract(
        "slime",
        "slime/observability/rollout_metrics.py",
        "",
        "slime.py",
        words=("custom_rollout_log_function_path",),
    ),
    Contract(
        "prime-rl",
        "src/prime_rl/monitors/file.py",
        "",
        "formats/prime-rl/reader.ts",
        words=("rollouts", "traces.jsonl"),
    ),
)


def problems_of(contract: Contract, root: Path) -> Iterator[tuple[int, str]]:
    """Line and what is wrong, for each thing that the source does not have."""
    path = root / contract.file
    if not path.is_file():
        yield 1, "there is no such file"
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: ast.AST = tree
    for part in filter(None, contract.name.split(".")):
        inside = next((node for node in _definitions(found) if node.name == part), None)
        if inside is None:
            yield getattr(found, "lineno", 1), f"has no {contract.name}"
            return
        found = inside
    line = getattr(found, "lineno", 1)
    if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
        given = found.args
        names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        for name in contract.arguments:
            if name not in names:
                yield line, f"{contract.name} has no argument {name}, but {', '.join(sorted(names))}"
    if isinstance(found, ast.ClassDef):
        for name in contract.fields:
            if name not in _fields(found):
                yield line, f"{contract.name} has no {name}"
        for name in contract.bases:
            if name not in [_last_name(base) for base in found.bases]:
                yield line, f"{contract.name} does not come from {name}"
        for name in contract.inherits:
            if any(node.name == name for node in _definitions(found)):
                yield line, f"{contract.name} has a {name} of its own, which is not watched"
    words = _words(found)
    for word in contract.words:
        if word not in words:
            yield line, f"nothing in {contract.name or 'it'} says {word!r}"


def _definitions(node: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        elif isinstance(child, (ast.If, ast.Try, ast.With)):
            yield from _definitions(child)


def _fields(node: ast.ClassDef) -> set[str]:
    """What the class's body annotates or assigns, and what its methods set on ``self``."""
    targets: list[ast.AST] = []
    for child in ast.walk(node):
        if isinstance(child, ast.Assign):
            targets += child.targets
        elif isinstance(child, (ast.AnnAssign, ast.AugAssign)):
            targets.append(child.target)
    found = {target.attr for target in targets if isinstance(target, ast.Attribute)}
    return found | {target.id for target in targets if isinstance(target, ast.Name)}


def _words(node: ast.AST) -> set[str]:
    """Texts, names and attributes that stand in it; parts of f-strings and of paths, too."""
    found = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            found |= {child.value, *child.value.split("/")}
        elif isinstance(child, ast.Name):
            found.add(child.id)
        elif isinstance(child, ast.Attribute):
            found.add(child.attr)
        elif isinstance(child, (ast.arg, ast.keyword)) and child.arg is not None:
            found.add(child.arg)
        elif isinstance(child, ast.alias):
            found.add(child.asname or child.name)
    return found


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def pinned() -> dict[str, str]:
    """Package -> version, of contracts.txt."""
    lines = (line.split("#")[0].strip() for line in PINNED.read_text().splitlines())
    return dict(line.split("==") for line in lines if line)  # type: ignore[arg-type]


def downloaded(folder: Path, versions: dict[str, str]) -> dict[str, Path]:
    """Package -> its unpacked wheel; downloads what is not there yet, without what it depends on."""
    found = {}
    for package, version in versions.items():
        own = folder / f"{package}-{version}"
        if not own.is_dir():
            wheels = folder / "wheels" / f"{package}-{version}"
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--only-binary", ":all:", "--dest", str(wheels), f"{package}=={version}"]
            if subprocess.run(command, check=False).returncode != 0:
                print(f"{package} {version} cannot be downloaded: {' '.join(command)} repeats it", file=sys.stderr)
                sys.exit(2)
            unpacking = own.with_suffix(".part")
            zipfile.ZipFile(next(wheels.glob("*.whl"))).extractall(unpacking)
            unpacking.rename(own)
        found[package] = own
    return found


def check(roots: dict[str, Path], versions: dict[str, str], contracts: Iterable[Contract] = CONTRACTS) -> int:
    """Prints what is missing, and a line for each package. Returns the number of problems."""
    problems = 0
    kept: dict[str, int] = {}
    for contract in contracts:
        root = roots.get(contract.package)
        if root is None:
            continue
        kept[contract.package] = kept.get(contract.package, 0) + 1
        for line, problem in problems_of(contract, root):
            problems += 1
            where = f"{contract.package} {versions.get(contract.package, '')}".strip()
            print(f"{where}: {contract.file}:{line}: {problem}; {contract.used_by} relies on it", file=sys.stderr)
    for package, count in kept.items():
        print(f"{package} {versions.get(package, 'checkout')}: {count} names looked up")
    return problems


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    folder, *given = arguments
    versions = pinned()
    roots = downloaded(Path(folder), versions)
    for each in given:
        name, _, path = each.partition("=")
        roots[name] = Path(path)
    missing = {contract.package for contract in CONTRACTS} - set(roots)
    for name in sorted(missing):
        print(f"{name}: not looked at, for it is on no index: name a checkout ({name}=PATH)")
    return 1 if check(roots, versions) > 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
