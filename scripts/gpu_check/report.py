"""What the GPU check's figures are held against (issue 4), and the table that it prints."""

# (case, must, aim): fractions of the read's speed.
READ_GOALS = (
    ("logits bf16 8192x151936", 0.90, 0.97),
    ("scores f32 65536x4096", 0.88, 0.96),
    ("scores f32 1048576x256", 0.60, 0.85),
    ("tokens bf16 [64,2048,4096]", 0.88, 0.95),
    ("logits bf16 32x1048576", 0.60, 0.85),
)
# (peer, must): how many times as fast as it logitStats is.
PEER_GOALS = (("torch eager", 14.0), ("torch.compile", 2.0), ("plain Triton", 1.15))
IPC_GOAL = (200e-6, 50e-6)


def goal(what, value, must, aim, reached):
    """Value and reached are None where nothing was measured, reached alone where a peer computed something else."""
    return {"what": what, "value": value, "must": must, "aim": aim, "reached": reached}


def goals(sections, times, peers, ipc):
    """The goals of these sections, each with what was measured."""
    rows = []
    if "time" in sections:
        fractions = {entry["case"]: entry["fraction"] for entry in times}
        for case, must, aim in READ_GOALS:
            value = fractions.get(case)
            shown, reached = (None, None) if value is None else (f"{value:.3f} of read", value >= must)
            rows.append(goal(case, shown, f"{must:.2f}", f"{aim:.2f}", reached))
    if "peers" in sections:
        entries = {entry["peer"]: entry for entry in peers if entry["operation"] == "logit_stats"}
        for peer, must in PEER_GOALS:
            entry = entries.get(peer)
            value = None if entry is None else entry["times_faster"]
            shown = None if value is None else f"{value:.2f}x"
            reached = None if value is None or entry["problem"] else value >= must
            rows.append(goal(f"logitStats against {peer}", shown, f"{must:.2f}x", "", reached))
    if "ipc" in sections:
        value = None if ipc is None else ipc["beyond_seconds"]
        shown = None if value is None else f"{value * 1e6:.0f} us"
        reached = None if value is None or ipc["problem"] else value <= IPC_GOAL[0]
        must, aim = (f"{seconds * 1e6:.0f} us" for seconds in IPC_GOAL)
        rows.append(goal("IPC import to result (C ABI)", shown, must, aim, reached))
    return rows


def time_lines(times):
    yield f"{'case':38} {'time':>11} {'wall':>11} {'GB/s':>8} {'read GB/s':>9} {'of read':>8}"
    for entry in times:
        speed, read_speed = (entry["bytes"] / entry[name] / 1e9 for name in ("seconds", "read_seconds"))
        yield (
            f"{entry['case']:38} {entry['seconds'] * 1e3:8.3f} ms {entry['wall_seconds'] * 1e3:8.3f} ms"
            f" {speed:8.0f} {read_speed:9.0f} {entry['fraction']:8.3f}"
        )
    yield ""


def peer_lines(peers):
    head = f"{'operation':12} {'shape':14} {'dtype':9} {'peer':14}"
    yield f"{head} {'time':>11} {'ours':>11} {'times':>7}"
    for entry in peers:
        numbers = " " * 31
        if entry["seconds"] is not None:
            theirs, ours = (entry[name] * 1e3 for name in ("seconds", "ours_seconds"))
            numbers = f"{theirs:8.3f} ms {ours:8.3f} ms {entry['times_faster']:7.2f}"
        note = f"  ({entry['problem']})" if entry["problem"] else ""
        yield f"{entry['operation']:12} {entry['shape']:14} {entry['dtype']:9} {entry['peer']:14} {numbers}{note}"
    yield ""


def table(result):
    """The whole run, as it is stored, for people."""
    lines = ["DRY RUN on an emulated device: no figure below is one of a GPU"] if result["dry"] else []
    lines += [f"{result['card']['name']}, driver {result['card']['driver']}", ""]
    if result["times"]:
        lines += time_lines(result["times"])
    if result["peers"]:
        lines += peer_lines(result["peers"])
    verdicts = {True: "reached", False: "MISSED", None: "NOT MEASURED"}
    for each in result["goals"]:
        verdict = "dry" if result["dry"] else verdicts[each["reached"]]
        lines.append(
            f"{each['what']:38} {each['value'] or '-':>16}   must {each['must']:>8}  aim {each['aim']:>8}   {verdict}"
        )
    lines.append("")
    for name, section in result["sections"].items():
        lines.append(f"{section['status']:8} {name:9} {section['seconds']:6.1f} s   {section['note']}")
    return "\n".join(lines)
