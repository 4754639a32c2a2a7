package mailsink_test

import (
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/mailsink"
)

func TestMailsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := mailsink.Listen(t.Context(), "127.0.0.1:0", dir)
	require.NoError(t, err)
	for _, subject := range []string{"One", "=?utf-8?q?=EB=91=98?="} {
		body := "To: <bob@example.com>\r\nSubject: " + subject + "\r\n\r\nHello\r\n"
		require.NoError(t, smtp.SendMail(s.Addr(), nil, "a@example.com", []string{"bob@example.com"}, []byte(body)))
	}
	all, err := s.Mails()
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, mailsink.Mail{File: all[1].File, To: "<bob@example.com>", Subject: "둘"}, all[1])

	mux := http.NewServeMux()
	mux.Handle("/mail/{file...}", s)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	require.Contains(t, get("/mail/").Body.String(), `<a href="`+all[0].File+`">One</a> &lt;bob@example.com&gt;`)
	require.Contains(t, get("/mail/"+all[0].File).Body.String(), "Hello")
	require.Equal(t, http.StatusNotFound, get("/mail/none.eml").Code)
	require.NoError(t, s.Close())
}
