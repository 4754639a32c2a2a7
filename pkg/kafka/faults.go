package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"urr.guru/pkg/errs"
)

// transientSQLStates lists classes (two characters) and codes of PostgreSQL errors that are
// caused by the server, its schema or the load, and never by the record:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var transientSQLStates = []string{
	"08",    // connection exceptions
	"25",    // read only after a failover, idle in a transaction for too long
	"26",    // a prepared statement no longer exists
	"28",    // the role or its password is refused
	"3D",    // the database does not exist (yet)
	"40",    // serialization failures, deadlocks
	"42501", // missing privilege
	"42P01", // missing table
	"42703", // missing column: a migration has not run
	"53",    // out of connections, memory, disk
	"55P03", // lock not available
	"57",    // canceled, shutting down, starting
	"58",    // system errors, such as I/O
}

// queryCanceled is PostgreSQL's code for a statement that exceeded statement_timeout.
const queryCanceled = "57014"

// isTransient reports whether an error was not caused by the record: a dependency of the handler is
// unavailable, not ready or overloaded. Any other record would fail too, so the record is retried
// however long the outage lasts.
func isTransient(err error) bool {
	if IsPoison(err) {
		return false
	}
	code := sqlState(err)
	if slices.ContainsFunc(transientSQLStates, func(prefix string) bool { return strings.HasPrefix(code, prefix) }) {
		return true
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return true
	}
	switch errs.From(err).Kind {
	case errs.Unavailable, errs.Deadline, errs.Exhausted, errs.Canceled:
		return true
	default:
		return false
	}
}

// isSlow reports whether a transient error is a timeout, so that a smaller batch may succeed.
func isSlow(err error) bool {
	return sqlState(err) == queryCanceled || errs.From(err).Kind == errs.Deadline || errors.Is(err, context.DeadlineExceeded)
}

// sqlState returns the code of a PostgreSQL error, "" for any other error. It does not import the
// driver, since some consumers do not use PostgreSQL.
func sqlState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}
