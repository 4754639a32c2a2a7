package mail_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/mail"
	"urr.guru/services/ticket/internal/notice"
)

// server is an SMTP server for one client at a time.
type server struct {
	// delay is the time before each answer.
	delay time.Duration
	// answers has the answers to commands that are not just accepted; empty: the connection ends.
	answers map[string]string
	// commands gets the commands of the clients.
	commands chan string
}

func (s *server) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.talk(conn)
		_ = conn.Close()
	}
}

func (s *server) talk(conn net.Conn) {
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil { // if nobody ends it
		return
	}
	lines := bufio.NewReader(conn)
	for answer := "220 ready"; answer != ""; {
		time.Sleep(s.delay)
		if _, err := io.WriteString(conn, answer+"\r\n"); err != nil {
			return
		}
		line, err := lines.ReadString('\n')
		for strings.HasPrefix(answer, "354") && line != ".\r\n" && err == nil {
			line, err = lines.ReadString('\n')
		}
		if err != nil {
			return
		}
		answer = s.answer(strings.TrimSpace(line))
	}
}

func (s *server) answer(line string) string {
	select {
	case s.commands <- line:
	default:
	}
	command, _, _ := strings.Cut(line, " ")
	if answer, set := s.answers[command]; set {
		return answer
	}
	if command == "DATA" {
		return "354 go on"
	}
	return "250 OK"
}

// facts knows nothing of an order: the mails under test do not need it.
type facts struct{}

func (facts) Facts(context.Context, string, string) (notice.Facts, error) { return notice.Facts{}, nil }

// send attempts to send a mail to s, and returns the outcome and the time that it took.
func send(t *testing.T, s *server, settings mail.Settings, serverTLS *tls.Config, within time.Duration) (notice.Outcome, time.Duration) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	settings.Addr, settings.From, settings.PublicURL = listener.Addr().String(), "Tickets <tickets@urr.test>", "https://urr.test"
	if serverTLS != nil {
		listener = tls.NewListener(listener, serverTLS)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.serve(listener) }()
	defer func() { require.NoError(t, listener.Close()); <-done }()
	sender, err := mail.NewSender(settings, facts{}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	began := time.Now()
	o := sender.Lanes()[0].Send(ctx, &notice.Delivery{
		Notice: notice.Notice{ID: uuid.New(), Type: notice.EventPostponed, Data: []byte(`{}`), CreatedAt: began}, UserID: "u", Email: "u@example.com",
	})
	return o, time.Since(began)
}

// A mail that the server has accepted counts as sent, even if the connection then fails.
func TestAcceptedMailIsSent(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]map[string]string{
		"reset refused": {"RSET": "421 going away"}, "reset cut off": {"RSET": ""}, "quit refused": {"QUIT": "421 going away"}, "quit cut off": {"QUIT": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _ := send(t, &server{answers: answers}, mail.Settings{TLS: mail.None}, nil, 10*time.Second)
			require.Equal(t, notice.Outcome{}, o)
		})
	}
	o, _ := send(t, &server{answers: map[string]string{"DATA": "451 later"}}, mail.Settings{TLS: mail.None}, nil, 10*time.Second)
	require.Equal(t, 451, o.Status)
}

// An attempt ends at its deadline, even if the server is slow with every answer.
func TestAttemptEndsInTime(t *testing.T) {
	t.Parallel()
	const within = 300 * time.Millisecond
	o, took := send(t, &server{delay: within * 2 / 3}, mail.Settings{TLS: mail.None}, nil, within)
	require.Equal(t, notice.Outcome{Error: "no answer in time"}, o)
	require.Less(t, took, within*5/4)
}

// With implicit TLS, the connection is encrypted before the password is sent.
func TestImplicitTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	roots := x509.NewCertPool()
	s := &server{answers: map[string]string{"EHLO": "250-urr.test\r\n250 AUTH PLAIN", "AUTH": "235 OK"}, commands: make(chan string, 20)}
	settings := mail.Settings{TLS: mail.Implicit, User: "u", Password: "p", Trust: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	serverTLS := &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}
	o, _ := send(t, s, settings, serverTLS, 10*time.Second)
	require.Contains(t, o.Error, "certificate")
	roots.AddCert(certified.Certificate())
	o, _ = send(t, s, settings, serverTLS, 10*time.Second)
	require.Equal(t, notice.Outcome{}, o)
	<-s.commands // EHLO
	require.Equal(t, "AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00u\x00p")), <-s.commands)
}
