"""The backend of Tegula for Intel devices."""
