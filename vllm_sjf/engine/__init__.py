"""The seam: the only package of this distribution that imports vLLM."""
