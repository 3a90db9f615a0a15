"""collapsar's CUDA backend by its C ABI, on torch's tensors: no Node, no copy.

The structs are those of native/cuda/backend.h; sizes are checked by the backend itself, which refuses any other.
"""

import ctypes as c

import torch

OK = 0
DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


def struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": [("size", c.c_uint32), *fields]})


i32, i64, ptr = c.c_int32, c.c_int64, c.c_void_p


class Error(c.Structure):
    _fields_ = [("code", i32), ("cuda_error", i32), ("asked", i64), ("free", i64), ("message", c.c_char * 512)]


Control = struct(
    "Control",
    *(("reserved", c.c_uint32), ("cancelled", ptr), ("progress", ptr), ("context", ptr), ("kernel_seconds", ptr)),
)
Logits = struct(
    "Logits",
    *(("dtype", i32), ("data", ptr), ("on_device", i32), ("reserved", i32)),
    *((name, i64) for name in ("rows", "columns", "row_stride", "column_stride")),
    *(("targets", ptr), ("mask", ptr), ("temperature", c.c_double), ("sequences", i64), ("begins", ptr), ("ends", ptr)),
)
LogitStats = struct(
    "LogitStats",
    ("on_device", i32),
    *((name, ptr) for name in ("logsumexp", "entropy", "targetLogprob", "argmax", "rankAbove", "rankEqual")),
    *(("mean_entropy", ptr), ("mean_target", ptr)),
)
Scores = struct(
    "Scores",
    *(("dtype", i32), ("data", ptr), ("on_device", i32), ("reserved", i32)),
    *((name, i64) for name in ("rows", "columns", "row_stride", "column_stride")),
)
Labels = struct("Labels", ("reserved", i32), ("own", ptr), ("lengths", ptr), ("signature", ptr))
ROW_DOUBLES = (
    *("matchedSeq", "matchedToken", "marginalSeq", "marginalToken", "looMarginalSeq", "looMarginalToken"),
    "posteriorEntropy",
)
ROW_INTEGERS = ("argmax", "rankAbove", "rankEqual", "hitRank")
RowStats = struct(
    "RowStats",
    ("on_device", i32),
    *((name, ptr) for name in (*ROW_DOUBLES, *ROW_INTEGERS, "topColumns")),
    *(("top_k", i32), ("reserved", i32)),
)
Tokens = struct(
    "Tokens",
    *(("dtype", i32), ("data", ptr), ("on_device", i32), ("reserved", i32)),
    *((name, i64) for name in ("prompts", "rows", "prompt_stride", "row_stride", "token_stride")),
    *(("lengths", ptr), ("offsets", ptr)),
)
TokenSums = struct(
    "TokenSums",
    *(("on_device", i32), ("sums", ptr), ("columns", i64), ("column_of", ptr)),
    *((name, i64) for name in ("invalid_prompt", "invalid_row", "invalid_token")),
)

# The table's entries, in the order of backend.h.
ENTRIES = (
    *("device_count", "device_info", "open", "close", "memory_info", "alloc", "free", "upload", "download"),
    *("ipc_import", "ipc_close", "ipc_export", "ipc_export_end"),
    *("logit_stats", "score_stats", "sum_tokens", "tokens_to_row_stats", "read_bytes"),
)
Table = struct("Table", ("abi_version", c.c_uint32), ("build", c.c_char_p), *((name, ptr) for name in ENTRIES))


class Backend:
    """One device, opened. Calls wait until their results are there."""

    def __init__(self, path, index=0):
        library = c.CDLL(path)
        library.collapsar_cuda_backend.restype = c.POINTER(Table)
        self.table = library.collapsar_cuda_backend(c.c_uint32(1)).contents
        if self.table.size != c.sizeof(Table):
            raise RuntimeError("the backend's table is of another version than bench/gpu/backend.py")
        self.error = Error()
        self.device = ptr()
        self.kernel_seconds = c.c_double()
        self.control = Control(size=c.sizeof(Control), kernel_seconds=c.addressof(self.kernel_seconds))
        self.call("open", i32(index), c.byref(self.device))

    def call(self, name, *arguments):
        function = c.CFUNCTYPE(i32, *([ptr] * (len(arguments) + 1)))(getattr(self.table, name))
        given = [c.cast(a, ptr) if not isinstance(a, (c._SimpleCData, type(None))) else a for a in arguments]
        given = [ptr(a.value) if isinstance(a, c._SimpleCData) else a for a in given]
        if function(*given, c.cast(c.byref(self.error), ptr)) != OK:
            raise RuntimeError(self.error.message.decode())

    def logit_stats(self, x, target):
        rows, columns = x.shape
        targets = target.to("cpu", torch.int32)
        doubles = ("logsumexp", "entropy", "targetLogprob")
        out = {name: torch.full((rows,), -777.0, dtype=torch.float64) for name in doubles}
        out |= {name: torch.full((rows,), -777, dtype=torch.int32) for name in ("argmax", "rankAbove", "rankEqual")}
        given = Logits(
            *(c.sizeof(Logits), DTYPES[x.dtype], x.data_ptr(), 1, 0, rows, columns, x.stride(0), x.stride(1)),
            *(targets.data_ptr(), None, 1.0, 0, None, None),
        )
        fields = LogitStats(c.sizeof(LogitStats), 0, *(values.data_ptr() for values in out.values()), None, None)
        torch.cuda.synchronize()
        self.call("logit_stats", self.device, c.byref(given), c.byref(fields), c.byref(self.control))
        return out

    def score_stats(self, x, own, lengths):
        rows, columns = x.shape
        own, lengths = own.to("cpu", torch.int32), lengths.to("cpu", torch.int64)
        out = {name: torch.full((rows,), -777.0, dtype=torch.float64) for name in ROW_DOUBLES}
        out |= {name: torch.full((rows,), -777, dtype=torch.int32) for name in ROW_INTEGERS}
        given = Scores(c.sizeof(Scores), DTYPES[x.dtype], x.data_ptr(), 1, 0, rows, columns, x.stride(0), x.stride(1))
        labels = Labels(c.sizeof(Labels), 0, own.data_ptr(), lengths.data_ptr(), None)
        fields = RowStats(c.sizeof(RowStats), 0, *(values.data_ptr() for values in out.values()), None, 0, 0)
        torch.cuda.synchronize()
        self.call("score_stats", self.device, c.byref(given), c.byref(labels), c.byref(fields), c.byref(self.control))
        return out

    def sum_tokens(self, x, lengths):
        prompts, rows, _ = x.shape
        lengths = lengths.to("cpu", torch.int64)
        sums = torch.full((rows, prompts), -777.0, dtype=torch.float64)
        given = Tokens(
            *(c.sizeof(Tokens), DTYPES[x.dtype], x.data_ptr(), 1, 0, prompts, rows, *x.stride()),
            *(lengths.data_ptr(), None),
        )
        out = TokenSums(c.sizeof(TokenSums), 0, sums.data_ptr(), prompts, None, 0, 0, 0)
        torch.cuda.synchronize()
        self.call("sum_tokens", self.device, c.byref(given), c.byref(out), c.byref(self.control))
        return {"sums": sums}
