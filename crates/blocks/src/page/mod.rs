//! Pages that change in DRAM and persist whole or not at all (van Renen §3.2).
