"""Length predictors for vllm-sjf. Needs NumPy and safetensors; never imports vLLM."""
