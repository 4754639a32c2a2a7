package client

import (
	"context"
	"net"
	"syscall"
)

// Dialer is how a client connects.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// once makes connections whose failures the client does not answer by sending the command again: to
// another connection, in a cluster up to eight times. What failed before it was sent (no connection
// could be made, none was free) is still tried again.
func (d Dialer) once(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if raw, ok := conn.(syscall.Conn); ok { // by which the pool sees that an idle one was closed
		return struct {
			onceConn
			syscall.Conn
		}{onceConn{conn}, raw}, nil
	}
	return onceConn{conn}, nil
}

type onceConn struct{ net.Conn }

// Read implements net.Conn.
func (c onceConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, lost(err)
}

// Write implements net.Conn.
func (c onceConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, lost(err)
}

func lost(err error) error {
	if err == nil {
		return nil
	}
	return &LostError{err.Error()}
}

// LostError says that a command may or may not have been carried out. It unwraps to nothing, since
// the client repeats what ended with io.EOF or a time-out.
type LostError struct{ text string }

// Error implements error.
func (e *LostError) Error() string { return "connection lost: " + e.text }
