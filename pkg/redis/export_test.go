package redis

// OpenOver is Open with another way to the server.
var OpenOver = open
