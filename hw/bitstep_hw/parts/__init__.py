"""Small building blocks: arithmetic, registers of streams, memories."""
