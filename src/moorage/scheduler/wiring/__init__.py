"""Assembles schedulers from a policy and an API connection, runs their loop and reloads them."""
