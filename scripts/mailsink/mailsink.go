// Package mailsink is an SMTP server for development and tests: it keeps every mail as a file, and
// delivers none.
package mailsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/uuid"
)

const (
	// maxMail is the most bytes that a mail may have.
	maxMail = 4 << 20
	// timeout is the time limit of each read from a client and each write to it.
	timeout = 10 * time.Second
)

// Sink accepts mails to any address and keeps them in a folder as *.eml files that sort by time.
type Sink struct {
	dir    string
	server *smtp.Server
	done   chan error
}

// Listen starts a sink at addr. Close stops it.
func Listen(ctx context.Context, addr, dir string) (*Sink, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("mail: listen: %w", err)
	}
	s := &Sink{dir: dir, done: make(chan error, 1)}
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return session{s}, nil }))
	s.server.Addr, s.server.MaxMessageBytes, s.server.ReadTimeout, s.server.WriteTimeout = listener.Addr().String(), maxMail, timeout, timeout
	go func() { s.done <- s.server.Serve(listener) }()
	return s, nil
}

// Addr returns the address at which the sink accepts mails.
func (s *Sink) Addr() string { return s.server.Addr }

// Close stops the sink.
func (s *Sink) Close() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, smtp.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Mail is a received mail. File is the name of its file in the folder.
type Mail struct{ File, To, Subject string }

// Mails returns all mails, oldest first.
func (s *Sink) Mails() ([]Mail, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.eml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	all := make([]Mail, len(files))
	for i, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all[i] = Mail{File: filepath.Base(f), To: m.Header.Get("To"), Subject: subject}
	}
	return all, nil
}

var list = template.Must(template.New("").Parse( //nolint:gochecknoglobals // constant
	`<!doctype html><meta charset="utf-8"><title>Mails</title><ol>{{range .}}<li><a href="{{.File}}">{{.Subject}}</a> {{.To}}{{end}}</ol>`))

// ServeHTTP shows a list of all mails, or one mail as it was sent.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, err := s.Mails()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	name := r.PathValue("file")
	if name == "" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = list.Execute(w, all) // the client may be gone
		return
	}
	if !slices.ContainsFunc(all, func(m Mail) bool { return m.File == name }) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeFile(w, r, filepath.Join(s.dir, name))
}

type session struct{ sink *Sink }

func (session) Reset()                               {}
func (session) Logout() error                        { return nil }
func (session) Mail(string, *smtp.MailOptions) error { return nil }
func (session) Rcpt(string, *smtp.RcptOptions) error { return nil }

func (s session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	name := uuid.Must(uuid.NewV7()).String()
	partial := filepath.Join(s.sink.dir, name+".part")
	if err := os.WriteFile(partial, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, filepath.Join(s.sink.dir, name+".eml"))
}
