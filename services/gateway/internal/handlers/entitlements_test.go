package handlers_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// fakeUpload accepts one upload and keeps its users.
type fakeUpload struct {
	ticketv1.EntitlementAdminServiceClient

	userIDs, emails []string
	calls           int
	finished        bool
	sha256          string
}

func (r *fakeUpload) BeginUpload(context.Context, *ticketv1.BeginUploadRequest, ...grpc.CallOption) (*ticketv1.BeginUploadResponse, error) {
	return &ticketv1.BeginUploadResponse{UploadId: "u"}, nil
}

func (r *fakeUpload) AddToUpload(_ context.Context, in *ticketv1.AddToUploadRequest, _ ...grpc.CallOption) (*ticketv1.AddToUploadResponse, error) {
	r.calls++
	r.userIDs, r.emails = append(r.userIDs, in.GetUserIds()...), append(r.emails, in.GetEmails()...)
	return &ticketv1.AddToUploadResponse{}, nil
}

func (r *fakeUpload) FinishUpload(_ context.Context, in *ticketv1.FinishUploadRequest, _ ...grpc.CallOption) (*ticketv1.EntitlementList, error) {
	r.finished, r.sha256 = true, in.GetSha256()
	return &ticketv1.EntitlementList{List: "l"}, nil
}

func putList(t *testing.T, file string) (*fakeUpload, error) {
	t.Helper()
	r, put := upload(t, strings.NewReader(file))
	return r, put()
}

// upload returns a fake of the ticket service, and a function that uploads a file to it.
func upload(t *testing.T, file io.Reader) (*fakeUpload, func() error) {
	t.Helper()
	table, err := edge.NewTable(&edge.Route{ID: "put", Method: http.MethodPut, Pattern: "/{event_id}/{list}", Access: edge.Public})
	require.NoError(t, err)
	m, err := table.Match(http.MethodPut, "/e/l")
	require.NoError(t, err)
	r := &fakeUpload{}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", file)
	return r, func() error {
		w := httptest.NewRecorder()
		return handlers.NewEntitlementHandlers(r).PutList(w, req, &edge.Request{Match: m, Upload: edge.NewUpload(w, req)})
	}
}

func TestListsOfUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file            string
		userIDs, emails []string
	}{
		"ids":     {"userId\nalice\n\nbob", []string{"alice", "bob"}, nil},
		"e-mails": {"\ufeffname,email\r\nAlice,\"Alice@Example.com\"\r\n", nil, []string{"alice@example.com"}},
		"both":    {"email,userId,rank\na@example.com,,1\n,'-bob,2\n", []string{"-bob"}, []string{"a@example.com"}},
		"nobody":  {"userId\n", nil, nil},
		"capital": {"User ID,EMAIL\nalice,a@example.com\n", nil, []string{"a@example.com"}},
		"blank":   {",,\n userId ,,\n,,\nalice,,\n\"\",\"\",\"\"\n \u00a0,,\nbob\n,,\n", []string{"alice", "bob"}, nil},
	} {
		r, err := putList(t, c.file)
		require.NoError(t, err, name)
		require.Equal(t, c.userIDs, r.userIDs, name)
		require.Equal(t, c.emails, r.emails, name)
		require.True(t, r.finished, name)
		require.Equal(t, digestOf(c.file), r.sha256, name)
	}
	many := strings.Repeat("alice\n", 12_001)
	r, err := putList(t, "userId\n"+many)
	require.NoError(t, err)
	require.Len(t, r.userIDs, 12_001)
	require.Equal(t, 3, r.calls)
}

func digestOf(file string) string {
	sum := sha256.Sum256([]byte(file))
	return hex.EncodeToString(sum[:])
}

// lazyFile is a file of users that is made while it is read.
type lazyFile struct {
	lines int // still to come
	read  func(made int)
	made  int
	rest  string
}

func (f *lazyFile) Read(p []byte) (int, error) {
	if f.rest == "" && f.made == f.lines {
		return 0, io.EOF
	}
	if f.rest == "" {
		f.rest = "user-" + strconv.Itoa(f.made) + ",이름,\r\n"
		f.made++
		f.read(f.made)
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// A file of any length is sent on while it is read.
func TestLongListsOfUsers(t *testing.T) {
	t.Parallel()
	const lines = 200_000
	var r *fakeUpload
	file := &lazyFile{lines: lines, rest: "userId,name,\r\n", read: func(made int) {
		require.Less(t, made, len(r.userIDs)+10_000, "it waits for nothing but its parts")
	}}
	r, put := upload(t, file)
	require.NoError(t, put())
	require.Len(t, r.userIDs, lines)
	require.Equal(t, "user-199999", r.userIDs[lines-1])
	require.Equal(t, 40, r.calls)
}

// A file with an error replaces nothing. The response lists the errors with their lines.
func TestInvalidListsOfUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, path, message string }{
		"empty":       {"", "line 1", "is empty"},
		"a workbook":  {"PK\x03\x04\x14\x00\x06", "line 1", `is not text, but perhaps a spreadsheet's own format; save it as "CSV UTF-8"`},
		"no column":   {"name\nalice\n", "line 1", "must name a column userId or email"},
		"json":        {`{"userId":"alice"}`, "line 1", `is not CSV: bare " in non-quoted-field`},
		"user id":     {"userId\nalice\na b\n", "line 3", "has an invalid user id"},
		"e-mail":      {"email\nalice@\n", "line 2", "has an invalid e-mail address"},
		"NUL":         {"email\na\x00@example.com\n", "line 2", "has an invalid e-mail address"},
		"no text":     {"email\n\xff\xff@example.com\n", "line 2", `has characters that are neither UTF-8 nor CP949; save it as "CSV UTF-8"`},
		"no user":     {"email,userId,name\n,,\n,,Alice\n", "line 3", "has no user"},
		"other width": {"name,userId\nLee, Alice,alice\n", "line 2", "has more cells than the header; a cell with a separator needs quotes"},
		"quotes":      {"userId,name\nalice,\"A\"B\n", "line 2", `is not CSV: extraneous or missing " in quoted-field`},
	} {
		r, err := putList(t, c.file)
		require.ErrorIs(t, err, errs.ErrInvalidRequest, name)
		require.Equal(t, []errs.Field{{Path: c.path, Message: c.message}}, errs.From(err).Fields, name)
		require.False(t, r.finished, name)
	}
	var file strings.Builder
	for i := range 100 {
		file.WriteString("wrong id " + strconv.Itoa(i) + "\n")
	}
	_, err := putList(t, "userId\n"+file.String())
	require.Len(t, errs.From(err).Fields, 20)
	_, err = putList(t, "userId\n"+strings.Repeat("x", edge.MaxUpload))
	require.ErrorIs(t, err, errs.ErrBodyTooLarge)
}

// versionParts has the parts of a version, by the user before each and whether an address named it.
type versionParts struct {
	ticketv1.EntitlementAdminServiceClient

	parts map[string]*ticketv1.EntitlementUsers
}

func (v *versionParts) ReadEntitlementVersion(
	_ context.Context, in *ticketv1.ReadEntitlementVersionRequest, _ ...grpc.CallOption,
) (*ticketv1.EntitlementUsers, error) {
	part := v.parts[in.GetAfter()+strconv.FormatBool(in.GetAfterEmail())]
	if part == nil {
		return nil, errs.ErrUploadNotFound
	}
	return part, nil
}

func getVersion(t *testing.T, v *versionParts) (string, error) {
	t.Helper()
	table, err := edge.NewTable(&edge.Route{ID: "get", Method: http.MethodGet, Pattern: "/{event_id}/{list}/{version_id}", Access: edge.Public})
	require.NoError(t, err)
	m, err := table.Match(http.MethodGet, "/e/l/"+uuid.NewString())
	require.NoError(t, err)
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	err = handlers.NewEntitlementHandlers(v).GetVersion(w, req, &edge.Request{Match: m})
	return w.Body.String(), err
}

// The file of a version has all its parts, or breaks off so that nobody takes a part for all of it.
// An upload of it has the same users.
func TestVersionsOfLists(t *testing.T) {
	t.Parallel()
	v := &versionParts{parts: map[string]*ticketv1.EntitlementUsers{
		"false":             {UserIds: []string{"-bob", "alice"}},
		"alicefalse":        {UserIds: []string{"carol"}, Emails: []string{"a@example.com"}},
		"a@example.comtrue": {Emails: []string{"b@example.com"}},
		"b@example.comtrue": {},
	}}
	file, err := getVersion(t, v)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll("userId,email\n'-bob,\nalice,\ncarol,\n,a@example.com\n,b@example.com\n", "\n", "\r\n"), file)
	again, err := putList(t, file)
	require.NoError(t, err)
	require.Equal(t, []string{"-bob", "alice", "carol"}, again.userIDs)
	require.Equal(t, []string{"a@example.com", "b@example.com"}, again.emails)

	delete(v.parts, "b@example.comtrue")
	require.Panics(t, func() { _, _ = getVersion(t, v) })
	_, err = getVersion(t, &versionParts{})
	require.ErrorIs(t, err, errs.ErrUploadNotFound)
}
