"""Runs as JSON on stdin -> what changes_reference.py says of each, step by step, as JSON on stdout.

A run is {"k": prompts that the figure is among or null, "I": [..], "se": [..], "prompts": [..]}, one entry a step.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np

import changes_reference as reference

answers = []
for run in json.load(sys.stdin):
    k = float("inf") if run["k"] is None else float(run["k"])
    detector = reference.Detector(1, len(run["I"]), {"info": reference.TIERS["info"], "sure": reference.TIERS["sure"]})
    holds = {"info": [], "sure": []}
    for at, (value, error, prompts) in enumerate(zip(run["I"], run["se"], run["prompts"])):
        if at == len(run["I"]) - 1:
            detector.trace = []
        for tier, hit in detector.add(np.array([value]), np.array([error]), k, prompts).items():
            if hit[0]:
                holds[tier].append(at + 1)
    windows = {}
    for tier, window, p_before, p_start, _, _ in detector.trace[-1]:
        windows.setdefault(window, {})[tier] = [p_before, p_start]
    values, errors = np.array(run["I"][-64:]), np.array(run["se"])
    c2 = float((errors**2).sum() / reference.V_of(np.array(run["I"]), k).sum())
    answers.append({"holds": holds, "windows": windows, "since": reference.since(values, k, c2)[:6]})
json.dump(answers, sys.stdout)
