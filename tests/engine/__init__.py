"""The engine: whole engines here, its packages in the folders below."""
