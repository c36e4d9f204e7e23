"""Whole windows of training in one CUDA kernel: docs/design/0006-window-kernel.md."""
