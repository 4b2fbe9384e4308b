"""Pure decisions: frozen records in, decisions out. No clock, no engine, no vLLM."""
