"""Tables whose pages are packed and coded in every way that pyarrow has: python3 write_pages.py, in this folder,
then packed as pages.json (packSeeds of fuzz/seeds.ts). Small pages and row groups, so that each column has several of both."""

import pyarrow
import pyarrow.parquet

ROWS = 60


def every(number, value):
    """None in every `number`-th row."""
    return [None if row % number == 0 else value(row) for row in range(ROWS)]


columns = {
    "step": [row // 20 for row in range(ROWS)],
    "group": every(7, lambda row: f"group {row % 3}"),
    "prompt": [f"prompt {row % 3}: " + "é" * (row % 3 * 70) for row in range(ROWS)],
    "output": every(5, lambda row: "" if row % 4 == 0 else f"<think>row {row}</think>" + "wörter " * (row % 50)),
    "tokens": pyarrow.array(every(6, lambda row: [None if row % 11 == 0 else one for one in range(row % 5)]), pyarrow.list_(pyarrow.int32())),
    "logprobs": pyarrow.array(every(6, lambda row: [-one / 4 for one in range(row % 5)]), pyarrow.list_(pyarrow.float32())),
    "reward": every(9, lambda row: row / 8),
    "truncated": every(4, lambda row: row % 3 == 0),
    "sample": pyarrow.array([2**53 + row for row in range(ROWS)], pyarrow.int64()),
    "messages": [[{"role": "user", "content": "long " * 40}] for _ in range(ROWS)],
}
for codec in ["none", "snappy", "gzip", "zstd"]:
    for version in ["1.0", "2.0"]:
        for dictionary in [True, False]:
            name = f"pages/{codec}-v{version[0]}-{'dictionary' if dictionary else 'plain'}.parquet"
            pyarrow.parquet.write_table(
                pyarrow.table(columns),
                name,
                compression=codec,
                data_page_version=version,
                use_dictionary=dictionary,
                data_page_size=256,
                write_batch_size=8,
                row_group_size=25,
                write_statistics=False,
                store_schema=False,
            )
