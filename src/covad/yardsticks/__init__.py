"""Yardsticks beside covad's tests: what others would do with the same toys, and what nobody can exceed."""
