"""The edge to the world: what the simulation replaces so that everything above it runs as shipped.

clock      monotonic milliseconds
"""
