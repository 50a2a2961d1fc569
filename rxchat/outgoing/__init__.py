"""
Request builders, one module a dialect: our messages, tools and options as one provider's HTTP request.
"""
