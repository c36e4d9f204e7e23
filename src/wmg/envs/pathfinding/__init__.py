"""Pathfinding."""
