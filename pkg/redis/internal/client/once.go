package client

import (
	"context"
	"net"
	"syscall"
)

// Dialer opens a network connection.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// dialOnce opens a connection whose errors do not make the client send a command again (on another
// connection, in a cluster up to eight times). A command that was never sent, because no connection
// could be made or none was free, is still retried.
func (d Dialer) dialOnce(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if raw, ok := conn.(syscall.Conn); ok { // the pool uses it to detect closed idle connections
		return struct {
			onceConn
			syscall.Conn
		}{onceConn{conn}, raw}, nil
	}
	return onceConn{conn}, nil
}

// onceConn turns the errors of a connection into LostError, which the client does not retry.
type onceConn struct{ net.Conn }

func (c onceConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, toLostError(err)
}

func (c onceConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, toLostError(err)
}

func toLostError(err error) error {
	if err == nil {
		return nil
	}
	return &LostError{err.Error()}
}

// LostError is the error of a command that may or may not have been executed. It does not unwrap,
// since the client repeats commands that fail with io.EOF or a timeout.
type LostError struct{ text string }

func (e *LostError) Error() string { return "connection lost: " + e.text }
