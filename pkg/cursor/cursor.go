// Package cursor writes the key of a page's last item as a text with which a client asks for the
// next page, and reads such texts.
//
// A client need not look into a cursor, but may make one up. So the Parse functions return only keys
// that a store accepts, and otherwise fail with errs.ErrInvalidCursor. The cursor "" stands for the
// first page, and the zero key.
package cursor

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// maxLength is the length of the longest cursor in bytes: the offsets of a redrive.
const maxLength = 8000

// The years between which the times of Moment lie. Every store has a form for these times.
const minYear, maxYear = 1, 9999

var encoding = base64.RawURLEncoding.Strict() //nolint:gochecknoglobals // a constant

// Bytes returns the cursor of a key that consists of bytes.
func Bytes(key []byte) string { return encoding.EncodeToString(key) }

// ParseBytes is the inverse of Bytes. Only the caller knows which bytes are a key.
func ParseBytes(cursor string) ([]byte, error) {
	if len(cursor) > maxLength {
		return nil, errs.ErrInvalidCursor
	}
	key, err := encoding.DecodeString(cursor)
	if err != nil {
		return nil, errs.ErrInvalidCursor
	}
	return key, nil
}

// Text returns the cursor of a key that is a text.
func Text(key string) string { return Bytes([]byte(key)) }

// ParseText is the inverse of Text for keys that begin with prefix and consist of printable runes.
func ParseText(cursor, prefix string) (string, error) {
	key, err := ParseBytes(cursor)
	if err != nil || cursor == "" {
		return "", err
	}
	text := string(key)
	if !strings.HasPrefix(text, prefix) || !utf8.ValidString(text) || strings.ContainsFunc(text, isUnprintable) {
		return "", errs.ErrInvalidCursor
	}
	return text, nil
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

// ID returns the cursor of a UUID, and "" for uuid.Nil.
func ID(key uuid.UUID) string {
	if key == uuid.Nil {
		return ""
	}
	return Bytes(key[:])
}

// ParseID is the inverse of ID.
func ParseID(cursor string) (uuid.UUID, error) {
	key, err := ParseBytes(cursor)
	if err != nil || cursor == "" {
		return uuid.Nil, err
	}
	id, err := uuid.FromBytes(key)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, errs.ErrInvalidCursor
	}
	return id, nil
}

// Number returns the cursor of a number, and "" for 0.
func Number(key int64) string {
	if key == 0 {
		return ""
	}
	return strconv.FormatInt(key, 10)
}

// ParseNumber is the inverse of Number for numbers from 1.
func ParseNumber(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	key, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || key < 1 {
		return 0, errs.ErrInvalidCursor
	}
	return key, nil
}

// Moment returns the cursor of an item in a list that is sorted by time, in microseconds, and then
// by id.
func Moment(at time.Time, id string) string {
	return Text(strconv.FormatInt(at.UnixMicro(), 10) + "." + id)
}

// ParseMoment is the inverse of Moment for ids that valid accepts. The time is in UTC.
func ParseMoment(cursor string, valid func(id string) bool) (at time.Time, id string, err error) {
	text, err := ParseText(cursor, "")
	if err != nil || cursor == "" {
		return at, "", err
	}
	start, id, found := strings.Cut(text, ".")
	micros, err := strconv.ParseInt(start, 10, 64)
	at = time.UnixMicro(micros).UTC()
	if err != nil || at.Year() < minYear || at.Year() > maxYear || !found || !valid(id) {
		return time.Time{}, "", errs.ErrInvalidCursor
	}
	return at, id, nil
}
