"""
LLM provider byte streams as Observables of semantic chat events, plus one aggregated answer.
"""
