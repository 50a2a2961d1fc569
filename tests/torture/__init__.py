"""
The client and a provider that fails, over real HTTP, at every place and in every order.
"""
