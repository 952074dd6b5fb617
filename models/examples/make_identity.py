#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a TorchScript model that gives back what it is given: what is left of a
request's time when the model costs nothing."""

import sys

import torch


class Identity(torch.nn.Module):
    def forward(self, x):
        return x


torch.jit.script(Identity()).save(sys.argv[1])
