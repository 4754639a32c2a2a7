package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"urr.guru/pkg/errs"
)

// Err converts errors of the driver to the platform's: if the server is down, starting, not ready,
// overloaded or too slow it returns errs.ErrUnavailable with the original as its cause. It returns
// all other errors unchanged, including domain errors and context errors.
func Err(err error) error {
	var known *errs.Error
	if err == nil || errors.As(err, &known) || !unavailable(err) {
		return err
	}
	return errs.ErrUnavailable.Wrap(err)
}

func unavailable(err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return isUnavailableCode(pe.Code)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, puddle.ErrClosedPool) ||
		strings.Contains(err.Error(), "conn closed")
}

// isUnavailableCode reports whether an error code of PostgreSQL
// (https://www.postgresql.org/docs/current/errcodes-appendix.html) means that the server cannot
// serve at the moment.
func isUnavailableCode(code string) bool {
	switch {
	case strings.HasPrefix(code, "08"), // connection exception
		strings.HasPrefix(code, "28"),  // role or password refused, as by a server that is not ready after a failover
		strings.HasPrefix(code, "3D"),  // database does not exist, for the same reason
		strings.HasPrefix(code, "53"),  // out of connections, memory, disk
		strings.HasPrefix(code, "58"),  // system error, such as I/O
		strings.HasPrefix(code, "57P"), // shutting down, crashed, starting up
		code == "57014",                // statement_timeout
		code == "25P03",                // idle_in_transaction_session_timeout
		code == "25006",                // read only: a standby was promoted elsewhere
		code == "55P03":                // lock_timeout
		return true
	default:
		return false
	}
}
