package redis

// OpenOver is Open with another dialer.
var OpenOver = open
