#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes paldia.yaml: GoogleNet on a V100 and an M60 under four laws of
contention. Synthetic: PALDIA has no execution times. The V100's are the digest's,
fitted to the baselines of figure 13a alone: 108 or 128 rows take 43 to 58 ms, k
concurrent batches take max(1, factor * k^exponent) times as long.
The M60 takes 3 times as long as the V100 (a declared choice)."""

LAWS = [
    # model, rows of a batch, seconds alone, factor, exponent
    ("googlenet-linear", 108, 0.049, 0.640, 1.0),
    ("googlenet-power-1.5", 108, 0.043, 0.289, 1.5),
    ("googlenet-square", 108, 0.049, 0.100, 2.0),
    ("googlenet-square-128", 128, 0.058, 0.119, 2.0),
]
KINDS = [("v100", 1), ("m60", 3)]
AT_ONCE = range(2, 13)

print("# Made by make_paldia.py, which names the sources of the figures.")
print("models:")
for model, rows, solo, factor, exponent in LAWS:
    print(f"  - model: {model}")
    print("    points:")
    for kind, times in KINDS:
        for batch in (1, rows):
            alone = times * solo * batch / rows
            share = f", bandwidth_share: {factor}" if batch == rows else ""
            print(f"      - {{device: {kind}, batch: {batch}, metrics:"
                  f" {{execute_seconds: {alone:.6g}, load_seconds: 1{share}}}}}")
            for k in AT_ONCE:
                seconds = alone * max(1.0, factor * k ** exponent)
                print(f"      - {{device: {kind}, batch: {batch}, dimensions:"
                      f" {{at_once: {k}}}, metrics: {{execute_seconds:"
                      f" {seconds:.6g}}}}}")
