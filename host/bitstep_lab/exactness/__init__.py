"""Distance to the optimum by bytes read: bit-centred training beside others."""
