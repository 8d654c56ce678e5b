"""SQLAlchemy: core, ORM and reflection, over psycopg 3. Its own dialect suite is in sqlalchemy_suite."""

import datetime
import decimal

import sqlalchemy
from report import check, host
from sqlalchemy import (
    CheckConstraint, Date, DateTime, Float, ForeignKey, Index, LargeBinary, MetaData, Numeric, String, Table, Column, Integer,
    and_, case, cast, exists, func, insert, inspect, literal, select, text, tuple_, union_all, update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, joinedload, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True, comment="as printed")
    born: Mapped[datetime.date | None]
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    __table_args__ = (CheckConstraint("price >= 0", name="price_is_positive"), Index("book_title", "title", "price"))
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    price: Mapped[decimal.Decimal] = mapped_column(Numeric(8, 2), server_default="0")
    created: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id", ondelete="CASCADE"))
    author: Mapped[Author] = relationship(back_populates="books")


# The same without what foreign keys need, so that what follows can be seen without them.
plain = MetaData()
note = Table(
    "note", plain, Column("id", Integer, primary_key=True), Column("text", String(50), nullable=False), Column("rating", Float),
    Column("data", LargeBinary), Column("day", Date), Column("amount", Numeric(10, 3)), Column("parent", Integer),
)


def orm(engine):
    check("create_all", Base.metadata.create_all, engine)

    def filled():
        with Session(engine) as session:
            ann = Author(name="Ann", born=datetime.date(1970, 1, 1), books=[Book(title="A", price=decimal.Decimal("1.50")), Book(title="B")])
            session.add_all([ann, Author(name="Bob")])
            session.commit()
            return ann.id, [b.title for b in ann.books], ann.books[1].price

    check("add_all", filled)

    def queries():
        with Session(engine) as session:
            loaded = session.scalars(select(Author).options(selectinload(Author.books)).order_by(Author.id)).all()
            joined = session.scalars(select(Book).options(joinedload(Book.author)).where(Book.title.in_(["A", "B"])).order_by(Book.id)).all()
            counted = session.execute(select(Author.name, func.count(Book.id)).outerjoin(Book).group_by(Author.id).order_by(Author.name)).all()
            without = session.scalars(select(Author.name).where(~Author.books.any())).all()
            return [(a.name, len(a.books)) for a in loaded], [b.author.name for b in joined], [tuple(c) for c in counted], without

    check("queries", queries)

    def savepoint():
        with Session(engine) as session:
            session.add(Author(name="Kept"))
            session.flush()
            try:
                with session.begin_nested():
                    session.add(Author(name="Ann"))
            except sqlalchemy.exc.IntegrityError as error:
                kept = error.orig.diag.constraint_name
            session.commit()
            return kept, session.scalar(select(func.count()).select_from(Author))

    check("savepoint", savepoint)

    def deletion():
        with Session(engine) as session:
            session.delete(session.scalars(select(Author).where(Author.name == "Ann")).one())
            session.commit()
            return session.scalar(select(func.count()).select_from(Book))

    check("delete with cascade", deletion)
    check("drop_all", Base.metadata.drop_all, engine)


def core(engine):
    check("create plain", plain.create_all, engine)

    def run(statement, parameters=None):
        with engine.begin() as connection:
            result = connection.execute(statement, parameters) if parameters else connection.execute(statement)
            return [tuple(row) for row in result] if result.returns_rows else result.rowcount

    rows = [{"text": f"n{i}", "rating": i / 2, "data": bytes([i]), "day": datetime.date(2026, 1, i), "amount": i, "parent": i // 2 or None} for i in range(1, 6)]
    check("insert many", run, insert(note), rows)
    check("insert returning", run, insert(note).values(text="one").returning(note.c.id, note.c.text))
    check("insertmanyvalues", run, insert(note).returning(note.c.id, sort_by_parameter_order=True), [{"text": "x"}, {"text": "y"}])
    check("update returning", run, update(note).where(note.c.text == "x").values(rating=note.c.id * 2).returning(note.c.rating))
    upsert = postgresql.insert(note).values(id=1, text="again")
    check("upsert", run, upsert.on_conflict_do_update(index_elements=[note.c.id], set_={"text": upsert.excluded.text}).returning(note.c.text))
    check("select", run, select(note.c.id, note.c.amount, note.c.day, note.c.data).where(and_(note.c.id > 1, note.c.id < 4)).order_by(note.c.id))
    check("case", run, select(case((note.c.rating > 1, "high"), else_="low"), func.count()).group_by(text("1")).order_by(text("1")))
    check("window", run, select(note.c.id, func.sum(note.c.amount).over(order_by=note.c.id)).order_by(note.c.id).limit(3))
    other = aliased(note)
    check("self join", run, select(note.c.text, other.c.text).join(other, other.c.id == note.c.parent).order_by(note.c.id))
    check("exists", run, select(note.c.id).where(exists().where(other.c.parent == note.c.id)).order_by(note.c.id))
    check("scalar subquery", run, select(note.c.id, select(func.max(other.c.id)).where(other.c.parent == note.c.id).scalar_subquery()).order_by(note.c.id).limit(3))
    check("cte", run, union_all(select(literal(1)), select(literal(2))).order_by(text("1")))
    tree = select(note.c.id, literal(0).label("depth")).where(note.c.id == 1).cte(recursive=True)
    check("recursive cte", run, select(tree.union_all(select(note.c.id, tree.c.depth + 1).join(tree, note.c.parent == tree.c.id))))
    check("tuples in", run, select(note.c.id).where(tuple_(note.c.id, note.c.text).in_([(2, "n2"), (3, "no")])))
    check("lateral", run, select(note.c.id, (late := select(other.c.id).where(other.c.parent == note.c.id).order_by(other.c.id).limit(1).lateral()).c.id).join(late, text("true"), isouter=True).order_by(note.c.id))
    check("distinct on", run, select(note.c.parent, note.c.id).distinct(note.c.parent).order_by(note.c.parent, note.c.id.desc()))
    check("for update", run, select(note.c.id).where(note.c.id == 2).with_for_update(skip_locked=True))
    check("cast", run, select(cast(literal("12"), Integer), cast(note.c.id, String)).limit(1))
    check("string_agg", run, select(func.string_agg(note.c.text, ",")).where(note.c.id < 4))
    check("extract", run, select(sqlalchemy.extract("month", note.c.day)).where(note.c.id == 2))
    check("ilike", run, select(note.c.id).where(note.c.text.ilike("N_")).order_by(note.c.id))
    check("regexp", run, select(note.c.id).where(note.c.text.regexp_match("^n[12]")).order_by(note.c.id))
    check("array", run, select(postgresql.array([1, 2]), note.c.id == func.any(postgresql.array([2]))).where(note.c.id == 2))
    check("jsonb", run, select(cast({"a": 1}, postgresql.JSONB)["a"].as_integer()))
    check("generate_series", run, select(func.generate_series(1, 3).table_valued("i")))
    check("values", run, select(sqlalchemy.values(sqlalchemy.column("a", Integer), sqlalchemy.column("b", String), name="v").data([(1, "x"), (2, "y")])))

    def streamed():
        with engine.connect() as connection:
            result = connection.execution_options(yield_per=2).execute(select(note.c.id).order_by(note.c.id))
            return [len(part) for part in result.partitions()]

    check("stream", streamed)
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
        check(f"isolation {level}", lambda level=level: engine.connect().execution_options(isolation_level=level).scalar(text("SHOW transaction_isolation")) if level != "AUTOCOMMIT" else engine.connect().execution_options(isolation_level=level).scalar(text("SELECT 1")))


def reflection(engine):
    metadata = MetaData()
    check("reflect", lambda: (metadata.reflect(engine), sorted(metadata.tables))[1])
    Base.metadata.create_all(engine)
    inspector = inspect(engine)
    for name in ("get_schema_names", "get_table_names", "get_view_names", "get_materialized_view_names", "get_temp_table_names", "get_sequence_names", "get_enums"):
        check(name, lambda name=name: sorted(getattr(inspector, name)(), key=str))
    for name in ("get_columns", "get_pk_constraint", "get_foreign_keys", "get_indexes", "get_unique_constraints", "get_check_constraints", "get_table_comment", "get_table_options"):
        check(name, lambda name=name: str(getattr(inspector, name)("book")))
        check(f"{name} of author", lambda name=name: str(getattr(inspector, name)("author")))
    check("has_table", lambda: (inspector.has_table("book"), inspector.has_table("nothing"), inspector.has_index("book", "book_title")))
    check("autoload", lambda: [str(c.type) for c in Table("book", MetaData(), autoload_with=engine).columns])


def main():
    where, port, user, database = host()
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{user}@{where}:{port}/{database}", pool_pre_ping=True)
    for part in (core, orm, reflection):
        check(f"part {part.__name__}", part, engine)
    for driver in ("psycopg2", "asyncpg"):
        check(f"driver {driver}", lambda driver=driver: sqlalchemy.make_url(f"postgresql+{driver}://{user}@{where}:{port}/{database}").get_dialect().name)
    second = sqlalchemy.create_engine(f"postgresql+psycopg2://{user}@{where}:{port}/{database}", isolation_level="REPEATABLE READ")
    check("psycopg2 query", lambda: second.connect().execute(select(note.c.text).where(note.c.id == 2)).all()[0][0])


main()
