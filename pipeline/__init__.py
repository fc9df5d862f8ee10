"""The product's mind: pure and sans-IO. No socket, no clock, no environment, no logging library in here."""
