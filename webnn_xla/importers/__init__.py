"""Importers: other formats → a WebNN graph, through the same builder as everything else."""
