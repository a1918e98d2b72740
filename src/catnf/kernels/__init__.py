"""Fused GPU versions of hot spots, each beside a plain torch twin that it must agree with."""
