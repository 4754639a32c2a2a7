package redis

// OpenOver is Open with another dialer.
var OpenOver = open

// ExportMemory exports the memory of the nodes once.
var ExportMemory = exportMemory
