"""Who may do what, and the certificate the server shows."""
