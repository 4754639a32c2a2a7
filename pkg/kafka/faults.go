package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"urr.guru/pkg/errs"
)

// oursBySQLState are the classes (two characters) and codes of PostgreSQL that say something of the
// server, its schema or the load, and nothing of the record:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var oursBySQLState = []string{
	"08",    // connection exceptions
	"25",    // read only after a failover, idle in a transaction for too long
	"26",    // a prepared statement is gone
	"28",    // the role or its password is refused
	"3D",    // the database is not there (yet)
	"40",    // serialization failures, deadlocks
	"42501", // a privilege is missing
	"42P01", // a table
	"42703", // or a column: a migration has not run
	"53",    // out of connections, memory, disk
	"55P03", // lock not available
	"57",    // canceled, shutting down, starting
	"58",    // system errors, as of the disk
}

// queryCanceled is what a statement ends with that took longer than it may.
const queryCanceled = "57014"

// fault reports errors of which the record is innocent: something that the handler needs is away,
// not ready, or has too much to do. However long that lasts, putting the record aside would mend
// nothing.
func fault(err error) bool {
	if IsPoison(err) {
		return false
	}
	if code := sqlState(err); code != "" {
		for _, ours := range oursBySQLState {
			if strings.HasPrefix(code, ours) {
				return true
			}
		}
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

// slow reports faults that a smaller batch may not have.
func slow(err error) bool {
	return sqlState(err) == queryCanceled || errs.From(err).Kind == errs.Deadline || errors.Is(err, context.DeadlineExceeded)
}

// sqlState is the code of an error of PostgreSQL, "" of any other. The driver is not imported for
// it: some consumers have none.
func sqlState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}
