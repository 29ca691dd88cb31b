"""Pretrained networks, whose features other networks are trained on."""
