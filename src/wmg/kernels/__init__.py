"""Whole windows of training in one CUDA kernel, where one fits: see docs/design/0006-window-kernel.md."""
