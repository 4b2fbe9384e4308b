"""The front end's half: routes, middleware. Runs in vLLM's API server and imports no vLLM."""
