#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes TorchScript models of realistic shapes with random weights from a seed, for
benchmarks of the request path, of loads and of transfers. The answers have no meaning.
"""

import argparse
import pathlib

import torch
from torch import nn

SEED = 7


class Identity(nn.Module):
    """Returns its input: measures a request's time without the model's."""

    def forward(self, x):
        return x


class Residual(nn.Module):
    """Two convolutions around a shortcut (He et al. 2015, figure 2)."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                nn.BatchNorm2d(channels),
            )

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18():
    """As in He et al. 2015, table 1: 11.7 million parameters."""
    blocks, channels_in = [], 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [
            Residual(channels_in, channels, stride),
            Residual(channels, channels, 1),
        ]
        channels_in = channels
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 1000),
    )


class Embedding(nn.Module):
    def __init__(self, words, positions, width):
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.position = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        return self.norm(self.word(ids) + self.position(places))


class Encoder(nn.Module):
    """Self-attention, then two matrices, each with a shortcut and a norm."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.last_norm = nn.LayerNorm(width)

    def forward(self, x):
        rows, words, width = x.size(0), x.size(1), x.size(2)
        each = width // self.heads
        parts = self.query_key_value(x).view(rows, words, 3, self.heads, each)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(-2, -1) / each**0.5, -1)
        seen = (weights @ value).transpose(1, 2).reshape(rows, words, width)
        x = self.norm(x + self.out(seen))
        return self.last_norm(x + self.outer(nn.functional.gelu(self.inner(x))))


class First(nn.Module):
    """The first word's vector through a matrix and tanh."""

    def __init__(self, width):
        super().__init__()
        self.matrix = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.matrix(x[:, 0]))


def bert_base():
    """As in Devlin et al. 2018, section 3: 12 layers of 768, 12 heads, 109
    million parameters."""
    layers = [Encoder(768, 12, 3072) for _ in range(12)]
    return nn.Sequential(Embedding(30522, 512, 768), *layers, First(768))


class Count(nn.Module):
    """Adds its parameter, a one: the cheapest possible layer."""

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x + self.one


def relay():
    """Four layers of minimal cost, one after the other."""
    return nn.Sequential(*(Count() for _ in range(4)))


def matrices():
    """Four layers of equal cost: 4.2 million multiplications per row each."""
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(4))
    )


def gigabyte():
    """Sixteen layers of 64 MiB: slow to load, fast to run."""
    return nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(16)))


MODELS = {"identity": Identity, "relay": relay, "matrices": matrices,
          "resnet18": resnet18, "bert-base": bert_base,
          "gigabyte": gigabyte}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("file", type=pathlib.Path, help="where to write")
    chosen = parser.parse_args()
    torch.manual_seed(SEED)
    torch.jit.script(MODELS[chosen.model]().eval()).save(str(chosen.file))


if __name__ == "__main__":
    main()
