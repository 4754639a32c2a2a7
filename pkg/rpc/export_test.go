package rpc

// Check is what a server does with a request before the handler sees it. No method of today lets in another service than the gateway and
// has a Caller, so this cannot be reached by a call.
var Check = check
