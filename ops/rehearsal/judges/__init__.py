"""What a vendor accepts: bytes of a request in, an `Ask` or the vendor's own error out."""
