#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes v100-thesis.yaml: table A.1 of the interference framework (Elvinger,
ETH Zurich, thesis 505, 2024), 13 models on a V100-SXM2-16GB.

execute_seconds is the batch divided by the printed throughput, which has more
digits than the printed latency (within 2 % of each other).
memory_bytes is the printed part of 16 GiB (peak reserved memory: parameters and
activations). ao_percent, wao_percent and wsm_percent are the columns AO, WAO and
WSM. Batches that the table does not have ran out of memory. A value that is
unreadable in the only copy at hand is left out ('-'); doubtful digits are taken
as they were read: inception_v3 at 128 (memory, WAO, WSM), AO of mobilenet_v2 at
4 and of resnext50_32x4d at 8 and 64. The table has no load times.
"""

from pathlib import Path

MEMORY = 16 * 2**30  # bytes
NAMES = ("memory_bytes", "ao_percent", "wao_percent", "wsm_percent")

# Batch, requests/s, memory in percent, AO, WAO, WSM.
TABLE = """
alexnet
  4 2801.75 1.66 69.17 18.68 47.07
  8 3540.12 2.08 85.97 29.47 83.79
  16 5196.69 2.08 85.93 23.98 63.49
  32 5990.46 2.80 89.94 36.71 96.24
  64 6627.59 3.44 91.95 40.85 91.56
  128 7023.69 6.40 93.02 45.96 99.00
bert
  4 117.34 3.47 85.89 31.83 96.82
  8 121.53 4.06 88.46 32.63 98.92
  16 124.88 5.25 91.29 33.72 99.51
  32 131.19 7.63 92.90 27.22 99.77
  64 131.88 12.40 93.83 27.47 99.82
  128 132.68 21.92 94.21 27.61 99.89
bloom_560
  4 28.58 19.95 93.20 40.35 94.72
  8 29.33 26.29 93.80 41.26 97.66
  16 29.35 43.73 94.11 42.50 98.82
densenet121
  4 260.13 0.57 84.97 8.20 13.90
  8 472.72 0.93 87.28 12.37 21.26
  16 832.59 1.55 90.79 31.83 54.10
  32 954.82 2.84 93.61 49.97 86.92
  64 1017.07 5.27 94.63 55.59 92.30
  128 1063.81 10.12 94.77 59.10 97.81
efficientnet_b7
  4 133.93 2.45 94.14 13.92 22.47
  8 260.14 3.54 92.96 28.25 43.55
  16 344.10 5.69 96.78 52.48 81.32
  32 362.31 9.94 98.06 60.03 92.35
  64 397.70 18.43 98.41 62.05 95.81
  128 405.93 35.43 99.33 64.23 98.86
gpt2
  4 108.28 5.80 91.28 42.51 97.73
  8 109.23 10.48 93.05 54.08 98.84
  16 111.49 19.85 93.84 55.29 99.55
  32 117.21 38.58 94.27 43.27 99.77
inception_v3
  4 317.47 1.16 85.76 6.91 13.82
  8 583.79 1.67 87.01 12.83 29.11
  16 1004.73 3.07 90.82 19.85 47.39
  32 1178.99 4.93 92.80 31.46 76.37
  64 1427.86 8.61 92.77 37.40 88.81
  128 1574.14 15.04 - 40.40 93
mobilenet_v2
  4 698.08 0.56 95.79 8.10 12.13
  8 1322.24 1.03 89.73 14.62 22.44
  16 2409.23 2.11 91.19 29.92 44.89
  32 2855.66 4.25 92.62 61.22 88.65
  64 3032.44 8.50 93.41 66.87 95.12
  128 3117.90 17.00 93.80 69.11 97.73
resnet50
  4 589.78 1.16 87.39 17.55 36.26
  8 829.08 1.77 90.83 34.36 70.49
  16 998.99 2.70 92.63 45.14 87.33
  32 1067.13 4.52 93.58 46.57 93.90
  64 1117.12 8.16 93.95 48.55 98.04
  128 1149.98 15.45 100.00 49.85 99.16
resnext50_32x4d
  4 408.34 1.04 87.43 17.86 36.12
  8 540.23 - 90.80 - 68.28
  16 684.65 2.54 92.81 43.66 82.91
  32 762.39 4.36 93.54 44.80 91.70
  64 820.18 8.00 98.80 48.18 96.52
  128 850.23 15.29 100.00 49.45 98.43
t5
  4 128.74 3.17 97.18 43.39 77.25
  8 137.83 4.88 97.49 50.87 94.80
  16 146.02 8.15 97.74 53.50 97.78
  32 150.19 16.08 97.79 56.72 98.84
  64 151.97 29.17 97.89 58.93 99.41
vgg19
  4 408.51 4.19 92.15 33.91 95.18
  8 438.65 5.40 93.07 34.86 98.88
  16 610.11 10.58 93.56 48.88 99.27
  32 620.69 18.50 93.77 53.35 99.57
  64 627.01 34.32 93.88 55.28 99.69
  128 641.97 65.91 100.00 47.67 99.76
xlnet
  4 36.77 5.22 95.76 44.47 70.97
  8 29.48 7.37 97.62 52.08 69.93
  16 26.07 12.57 97.60 53.50 68.54
  32 25.26 22.09 94.45 49.51 67.87
  64 24.74 41.12 94.54 48.02 68.02
"""


def points(row):
    batch, rate, *others = row.split()
    metrics = {"execute_seconds": int(batch) / float(rate)}
    for name, text in zip(NAMES, others):
        if text != "-":
            metrics[name] = float(text) * (MEMORY / 100 if "bytes" in name else 1)
    text = ", ".join(f"{k}: {v:.12g}" for k, v in metrics.items())
    return f"      - {{device: v100, batch: {batch}, metrics: {{{text}}}}}\n"


def main():
    text = ("# Made by make_v100_thesis.py, which names the sources of the figures."
            "\nmodels:\n")
    for row in TABLE.strip().split("\n"):
        if row.startswith(" "):
            text += points(row)
        else:
            text += f"  - model: {row}\n    points:\n"
    Path(__file__).with_name("v100-thesis.yaml").write_text(text)


if __name__ == "__main__":
    main()
