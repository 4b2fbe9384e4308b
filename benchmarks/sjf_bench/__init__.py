"""Measure vllm-sjf against stock vLLM: the same requests, the same arrivals, a server each."""
