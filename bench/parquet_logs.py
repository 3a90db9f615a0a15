"""Rollout logs in Parquet for parquet-speed.mjs: python3 parquet_logs.py FOLDER MB. As TRL writes them (a file a step), and
one file of our own columns with a row group of 512 rows a step."""

import os
import sys

import numpy
import pyarrow
import pyarrow.parquet

folder, megabytes = sys.argv[1], float(sys.argv[2])
random = numpy.random.default_rng(1)
words = numpy.array([f"word{index}" for index in range(20_000)], dtype=object)
ROWS = 512


def texts():
    """Rows of some 3 kB, words as frequent as in a language."""
    for _ in range(ROWS):
        drawn = words[(20_000 ** random.random(300)).astype(int) - 1]
        yield "<think>\n" + " ".join(drawn) + "</think>\n\n42"


def step_of(step):
    prompts = [f"user\nquestion {row // 8} of {step}: " + "what is asked " * 20 for row in range(ROWS)]
    return prompts, list(texts()), random.random(ROWS), random.random(ROWS)


def trl(step):
    prompt, completion, first, advantage = step_of(step)
    second = (first > 0.5).astype(float)
    columns = dict(step=[step] * ROWS, prompt=prompt, completion=completion, accuracy=first, form=second, advantage=advantage)
    return pyarrow.table(columns)


def own(step):
    prompt, output, reward, entropy = step_of(step)
    group = [row // 8 for row in range(ROWS)]
    return pyarrow.table(dict(step=[step] * ROWS, group=group, prompt=prompt, output=output, reward=reward, entropy=entropy))


os.makedirs(f"{folder}/trl/completions", exist_ok=True)
os.makedirs(f"{folder}/own", exist_ok=True)
written, step = 0, 0
while written < megabytes * 0.5e6:
    step += 1
    table = trl(step)
    written += table.nbytes
    pyarrow.parquet.write_table(table, f"{folder}/trl/completions/completions_{step:05}.parquet")
written, step = 0, 0
with pyarrow.parquet.ParquetWriter(f"{folder}/own/rollouts.parquet", own(0).schema) as writer:
    while written < megabytes * 0.5e6:
        step += 1
        table = own(step)
        written += table.nbytes
        writer.write_table(table, row_group_size=ROWS)
