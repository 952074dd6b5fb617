#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes flashpoint.yaml: the six models of Flashpoint (table 3.1), layer by
layer, on the A10 of its testbed.

Values that the thesis measured are unchanged: the models' sizes, T5-3B's load and
send (14.138 s and 1.206 s for 11,408 MB; other models in proportion to their size)
and T5-3B's execution time (0.1406 s, from figure 8.3). The thesis gives no execution
times of other models; they are derived from its mean ratio of send to execution.
Of layers the thesis gives only T5-3B's number, 55: the layers here are those of the
published architectures, with bytes and times in proportion to their parameters.
Outputs have 256 tokens: then T5-3B's 54 cuts cost the 61.8 ms of the thesis.
"""

from pathlib import Path

LOAD = 14.138 / 11408  # seconds per MB, from the host's memory
SEND = 1.206 / 11408  # seconds per MB, from there to the device
TOKENS = 256


def attention(width, inner=None):
    return 4 * width * (inner or width)


def block(width, cross=0):
    """A transformer's block: attention, and two layers of four times the width."""
    return (1 + cross) * attention(width) + 8 * width * width


def gpt(width, blocks):
    return ([("embedding", 50257 * width + 1024 * width)]
            + [(f"block{i}", block(width)) for i in range(blocks)]
            + [("norm", 2 * width)])


def roberta(width, blocks):
    return ([("embedding", 50265 * width + 514 * width)]
            + [(f"block{i}", block(width)) for i in range(blocks)]
            + [("pooler", width * width)])


def bart(width, blocks):
    return ([("embedding", 50265 * width + 1026 * width)]
            + [(f"encoder{i}", block(width)) for i in range(blocks)]
            + [("decoder.embedding", 1026 * width)]
            + [(f"decoder{i}", block(width, 1)) for i in range(blocks)]
            + [("head", 2 * width)])


def t5(width, inner, hidden, blocks):
    ff = 2 * width * hidden
    return ([("embedding", 32128 * width)]
            + [(f"encoder{i}", attention(width, inner) + ff)
               for i in range(blocks)]
            + [("encoder.norm", width), ("encoder.dropout", 0),
               ("decoder.embedding", 0)]
            + [(f"decoder{i}", 2 * attention(width, inner) + ff)
               for i in range(blocks)]
            + [("decoder.norm", width), ("decoder.dropout", 0),
               ("head", 32128 * width)])


# Name, MB, execution in seconds, width, layers, and parameters that all layers share.
MODELS = [
    ("codebert", 499, .0027, 768, roberta(768, 12), 0),
    ("albert-xxlarge", 890, .0047, 4096,
     [("embedding", 30000 * 128 + 640 * 128)]
     + [(f"block{i}", 0) for i in range(12)] + [("pooler", 4096 * 4096)],
     block(4096)),
    ("bart-large", 1626, .0086, 1024, bart(1024, 12), 0),
    ("dialogpt-large", 3135, .0167, 1280, gpt(1280, 36), 0),
    ("gpt2-xl", 6282, .0334, 1600, gpt(1600, 48), 0),
    ("t5-3b", 11408, .1406, 1024, t5(1024, 4096, 16384, 24), 0),
]


def point(layer, metrics):
    text = ", ".join(f"{k}: {v:.6g}" for k, v in metrics.items() if v)
    dimensions = f"dimensions: {{layer: {layer}}}, " if layer is not None else ""
    return f"      - {{device: a10, {dimensions}metrics: {{{text}}}}}\n"


def model(name, size, execute, width, layers, shared):
    out = f"  - model: {name}\n    points:\n"
    scale = size / (sum(n for _, n in layers) + shared)  # MB per parameter
    out += point(None, {"execute_seconds": execute,
                        "load_seconds": (LOAD + SEND) * size,
                        "memory_bytes": size * 1e6,
                        "part_parameter_bytes": shared * scale * 1e6,
                        "part_attach_seconds": shared * scale * LOAD,
                        "part_send_seconds": shared * scale * SEND})
    # A layer computes with its own parameters, or with those that all blocks share.
    work = [n or (shared if "block" in what else 0) for what, n in layers]
    work = [0 if "embedding" in what else n for (what, _), n in
            zip(layers, work)]
    for i, ((what, n), w) in enumerate(zip(layers, work)):
        out += point(i, {
            "execute_seconds": max(execute * w / sum(work), 1e-6),
            "parameter_bytes": n * scale * 1e6,
            "attach_seconds": n * scale * LOAD,
            "send_seconds": n * scale * SEND,
            "output_bytes": TOKENS * width * 4 if i + 1 < len(layers) else 0,
        })
    return out


def main():
    text = ("# Made by make_flashpoint.py, which names the sources of the figures.\n"
            "models:\n" + "".join(model(*x) for x in MODELS))
    Path(__file__).with_name("flashpoint.yaml").write_text(text)


if __name__ == "__main__":
    main()
