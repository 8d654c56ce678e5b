"""Django: migrations of its own applications, models of ours, queries, transactions, introspection."""

import datetime
import decimal
import io
import uuid

import django
from django.conf import settings
from report import check as report_of, host

where, port, user, database = host()
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": database, "USER": user, "HOST": where, "PORT": port}},
    INSTALLED_APPS=[f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages")] + ["django_site"],
    USE_TZ=True, SECRET_KEY="of a check", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, connections, models, transaction  # noqa: E402
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value, When, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, ExtractYear, Length, Lower, RowNumber, TruncMonth, Upper  # noqa: E402
from django_site.models import Author, Book, Note, Wide  # noqa: E402


def check(name, work, *arguments):
    """A check after a failed one has a connection of its own, as another process would."""
    if not report_of(name, work, *arguments):
        connection.close()
        # With its transaction: closing alone keeps a block that a failed migration has left open.
        del connections["default"]


def command(name, *arguments, **options):
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, no_color=True, **options)
    # The order of tables in one statement is that of a set.
    return " ".join(sorted(out.getvalue().split())) if name == "sqlflush" else out.getvalue()


def create(model):
    with connection.schema_editor() as editor:
        editor.create_model(model)


def migrations():
    for app in ("contenttypes", "auth", "admin", "sessions"):
        check(f"migrate {app}", lambda app=app: command("migrate", app, interactive=False))
    check("showmigrations", lambda: command("showmigrations"))
    check("tables", lambda: sorted(connection.introspection.table_names()))
    check("permissions", lambda: Permission.objects.count())
    check("create user", lambda: User.objects.create_superuser("ann", "a@b.c", "secret").username)
    check("authenticate", lambda: User.objects.get(username="ann").check_password("secret"))
    check("group", groups)
    check("session", session)
    check("user again", lambda: User.objects.create_user("ann"))


def groups():
    group = Group.objects.create(name="writers")
    User.objects.get(username="ann").groups.add(group)
    group.permissions.set(Permission.objects.order_by("id")[:3])
    return User.objects.filter(groups__name="writers", groups__permissions__isnull=False).distinct().count()


def session():
    store = SessionStore()
    store["key"] = [1, 2]
    store.save()
    return SessionStore(store.session_key)["key"]


def single_tables():
    check("create note", create, Note)
    check("bulk_create", lambda: len(Note.objects.bulk_create([Note(text=f"Note {i}", number=i, day=datetime.date(2026, 1 + i % 3, 1)) for i in range(20)])))
    check("pk of created", lambda: Note.objects.create(text="last").pk)
    check("get_or_create", lambda: Note.objects.get_or_create(text="Note 1", defaults={"number": 7})[1])
    check("update_or_create", lambda: Note.objects.update_or_create(text="Note 1", defaults={"number": 70})[0].number)
    check("update F", lambda: Note.objects.filter(number__gt=10).update(number=F("number") + 1))
    check("bulk_update", bulk_update)
    check("upsert", lambda: len(Note.objects.bulk_create([Note(id=1, text="upserted")], update_conflicts=True, unique_fields=["id"], update_fields=["text"])))
    check("filter", lambda: list(Note.objects.filter(Q(text__icontains="NOTE 1") | Q(number=3)).order_by("id").values_list("id", "text")))
    check("in, range", lambda: list(Note.objects.filter(id__in=[1, 2, 3], number__range=(1, 2)).values_list("id", flat=True)))
    check("dates", lambda: list(Note.objects.dates("day", "month")))
    check("year, month", lambda: Note.objects.filter(day__year=2026, day__month=2).count())
    check("regex", lambda: Note.objects.filter(text__iregex=r"^note 1\d$").count())
    check("aggregate", lambda: Note.objects.aggregate(Sum("number"), Avg("number"), Max("day"), n=Count("id", filter=Q(number__gt=5))))
    check("group by", lambda: list(Note.objects.values("day").annotate(n=Count("id")).order_by("day")))
    check("trunc", lambda: list(Note.objects.filter(day__isnull=False).annotate(m=TruncMonth("day")).values("m").annotate(n=Count("id")).order_by("m")))
    check("case", lambda: list(Note.objects.annotate(k=Case(When(number__gt=10, then=Value("big")), default=Value("small"))).values_list("k").annotate(Count("id")).order_by("k")))
    check("window", lambda: list(Note.objects.annotate(n=Window(RowNumber(), partition_by=F("day"), order_by=F("id").asc())).values_list("id", "n").order_by("id")[:5]))
    check("functions", lambda: list(Note.objects.annotate(u=Upper("text"), n=Length("text"), c=Concat(Lower("text"), Value("!"))).values_list("u", "n", "c").order_by("id")[:1]))
    check("extract", lambda: list(Note.objects.annotate(y=ExtractYear("day")).values_list("y", flat=True).distinct().order_by("y")))
    check("exists", lambda: (Note.objects.filter(number=3).exists(), Note.objects.filter(number=-1).exists()))
    check("subquery", lambda: list(Note.objects.annotate(m=Subquery(Note.objects.filter(number__lt=OuterRef("number")).order_by("-number").values("id")[:1])).values_list("id", "m").order_by("id")[:3]))
    check("iterator", lambda: sum(n.number for n in Note.objects.order_by("id").iterator(chunk_size=3)))
    check("union", lambda: Note.objects.filter(id=1).union(Note.objects.filter(id=2)).count())
    check("distinct on", lambda: list(Note.objects.order_by("day", "-id").distinct("day").values_list("id", flat=True)))
    check("select_for_update", for_update)
    check("explain", lambda: "Note" in Note.objects.filter(id=1).explain() or True)
    check("explain analyze", lambda: "actual time" in Note.objects.filter(id=1).explain(analyze=True))
    check("raw", lambda: [n.text for n in Note.objects.raw("SELECT * FROM django_site_note WHERE id = %s", [2])])
    check("delete", lambda: Note.objects.filter(number__gt=15).delete())


def bulk_update():
    notes = list(Note.objects.order_by("id")[:3])
    for note in notes:
        note.text += "!"
    return Note.objects.bulk_update(notes, ["text"])


def for_update():
    with transaction.atomic():
        return Note.objects.select_for_update(skip_locked=True, of=("self",)).get(id=2).id


def relations():
    check("create author", create, Author)
    check("create book", create, Book)

    def fill():
        ann = Author.objects.create(name="Ann", born=datetime.date(1970, 1, 1))
        Author.objects.create(name="Bob")
        return [Book.objects.create(title=t, price=decimal.Decimal("9.90"), author=ann, code=uuid.UUID(int=1), cover=b"\0\1").id for t in ("A", "B", "C")]

    check("fill", fill)
    check("select_related", lambda: [(b.title, b.author.name, bytes(b.cover), b.code.int) for b in Book.objects.select_related("author").order_by("id")])
    check("prefetch_related", lambda: [(a.name, len(a.books.all())) for a in Author.objects.prefetch_related("books").order_by("id")])
    check("annotate", lambda: list(Author.objects.annotate(n=Count("books"), total=Coalesce(Sum("books__price"), decimal.Decimal(0))).values_list("name", "n", "total").order_by("name")))
    check("exclude", lambda: list(Author.objects.exclude(books__title="A").values_list("name", flat=True)))
    check("having", lambda: list(Author.objects.annotate(n=Count("books")).filter(n__gt=1).values_list("name", flat=True)))
    check("Exists", lambda: list(Author.objects.filter(~Exists(Book.objects.filter(author=OuterRef("pk")))).values_list("name", flat=True)))

    def violations():
        told = []
        for make in (
            lambda: Book.objects.create(title="A", author_id=1), lambda: Book.objects.create(title="Z", author_id=1, price=-1),
            lambda: Author.objects.create(name="Ann"), lambda: Author.objects.create(name=None),
        ):
            try:
                with transaction.atomic():
                    make()
            except IntegrityError as error:
                diagnosis = error.__cause__.diag
                told.append((diagnosis.sqlstate, diagnosis.constraint_name, diagnosis.column_name, diagnosis.table_name))
        return told

    check("violations", violations)

    def deferred():
        with transaction.atomic():
            Book.objects.create(title="orphan", author_id=12345)

    check("foreign key at commit", deferred)
    check("delete cascades", lambda: Author.objects.get(name="Ann").delete())


def transactions():
    seen = []

    def atomic():
        with transaction.atomic():
            Note.objects.create(text="outer")
            transaction.on_commit(lambda: seen.append("committed"))
            try:
                with transaction.atomic():
                    Note.objects.create(text="inner")
                    raise ValueError
            except ValueError:
                pass
        return Note.objects.filter(text__in=["outer", "inner"]).count(), seen

    check("atomic", atomic)


def schema():
    field = models.CharField(max_length=10, null=True)
    field.set_attributes_from_name("added")
    number = models.BigIntegerField(default=0)
    number.set_attributes_from_name("number")
    renamed = models.TextField()
    renamed.set_attributes_from_name("body")

    def edit(method, *arguments):
        with connection.schema_editor() as editor:
            getattr(editor, method)(*arguments)

    check("add field", edit, "add_field", Note, field)
    check("alter field", edit, "alter_field", Note, Note._meta.get_field("number"), number)
    check("rename field", edit, "alter_field", Note, Note._meta.get_field("text"), renamed)
    check("add index", edit, "add_index", Note, models.Index(fields=["day"], name="note_day"))
    check("add constraint", edit, "add_constraint", Note, models.UniqueConstraint(fields=["day", "id"], name="day_and_id"))
    check("conditional constraint", edit, "add_constraint", Note, models.UniqueConstraint(fields=["day"], condition=Q(number__gt=1000), name="when_large"))
    check("remove field", edit, "remove_field", Note, field)
    check("create wide", create, Wide)
    check("json", lambda: (Wide.objects.create(data={"a": {"b": [1]}}), Wide.objects.filter(data__a__b__0=1).count())[1])
    check("duration", lambda: Wide.objects.create(took=datetime.timedelta(days=1), at=datetime.time(1, 2)).took)


def introspection():
    check("inspectdb", lambda: command("inspectdb"))
    check("inspectdb note", lambda: command("inspectdb", "django_site_note"))
    for table in ("django_site_note", "auth_user", "auth_user_groups"):
        for method in ("get_constraints", "get_sequences", "get_table_description", "get_primary_key_column", "get_relations"):

            def look(table=table, method=method):
                with connection.cursor() as cursor:
                    found = getattr(connection.introspection, method)(cursor, table)
                    return sorted(map(str, found.items())) if isinstance(found, dict) else str(found)

            check(f"{method} {table}", look)
    check("sqlflush", lambda: command("sqlflush"))
    check("flush", lambda: command("flush", interactive=False))
    check("dumpdata", lambda: command("dumpdata", "contenttypes"))


def main():
    for part in (migrations, single_tables, relations, transactions, schema, introspection):
        check(f"part {part.__name__}", part)


main()
